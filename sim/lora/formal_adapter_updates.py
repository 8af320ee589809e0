"""Rules of `adapter`: a batch outputs each updated parameter once, after its last row and label.

Same parameters as `formal_adapter`; memory contents are free.
"""

from __future__ import annotations

from ...golden.lora.adapter import AdapterSpec
from ..formal.checker import Checker
from . import formal_adapter
from .observed_batch import ObservedBatch

SPEC = formal_adapter.SPEC
CUT = ("memories", "multipliers")
LARGE = True


def check(checker: Checker, spec: AdapterSpec) -> None:
    """The beats of the parameter image are outstanding from a batch's start, and complete before the next batch."""
    beats = spec.mapping.adapter_beats
    begins = ObservedBatch(checker, spec).begins
    checker.balance("o_words", [(begins, beats)], "o", beats)
