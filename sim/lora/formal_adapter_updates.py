"""Rules of `adapter`: a batch gives each updated parameter once, and none before its last row and label are there.

The adapter of `formal_adapter`. What memories hold is taken to be anything.
"""

from __future__ import annotations

from ...hw.lora.adapter import Adapter
from ..formal.checker import Checker
from . import formal_adapter
from .observed_batch import ObservedBatch

CUT = ("memories", "multipliers")
LARGE = True


def part() -> Adapter:
    """Make the block."""
    return Adapter(formal_adapter.SPEC)


def check(checker: Checker, part: Adapter) -> None:
    """Add the rules: the image's beats are owed from a batch's begin, and all given before the next one's."""
    beats, port = part.spec.mapping.adapter_beats, checker.streams["o"]
    begins = ObservedBatch(checker, part.spec).begins
    checker.balance("o_words", [(begins, beats)], [(port.valid, checker.moves("o"), 1)], beats)
