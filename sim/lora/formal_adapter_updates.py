"""Rules of `adapter`: a batch outputs each updated parameter once, and none before its last row and label.

Same parameters as `formal_adapter`; memory contents are free.
"""

from __future__ import annotations

from ...hw.lora.adapter import Adapter
from ..formal.checker import Checker
from . import formal_adapter
from .observed_batch import ObservedBatch

CUT = ("memories", "multipliers")
LARGE = True


def part() -> Adapter:
    return Adapter(formal_adapter.SPEC)


def check(checker: Checker, part: Adapter) -> None:
    """The image's beats are outstanding from a batch's start, and complete before the next batch."""
    beats, port = part.spec.mapping.adapter_beats, checker.streams["o"]
    begins = ObservedBatch(checker, part.spec).begins
    checker.balance("o_words", [(begins, beats)], [(port.valid, checker.moves("o"), 1)], beats)
