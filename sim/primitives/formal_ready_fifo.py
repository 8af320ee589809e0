"""Rules of the FIFO whose `ready` is a register: those of the FIFO inside, which always has room for what is taken."""

from __future__ import annotations

from ...hw.primitives.ready_fifo import ReadyFifo
from ..formal.checker import Checker
from ..formal.inside import parts_of, probe_of

DEPTH, WIDTH = 2, 2


def part() -> ReadyFifo:
    """Make a FIFO of two words of two bits, and one on offer; a word's bits are alike."""
    return ReadyFifo(WIDTH, DEPTH)


def check(checker: Checker, part: ReadyFifo) -> None:
    """Add the rules; what is counted is what the FIFO has, which never keeps words to itself while none is on offer."""
    given, inside, words = checker.streams["i"], probe_of(part), parts_of(part).words
    level = probe_of(words).level
    held = (level + 1)[: len(level)]
    checker.lemmas_together(
        {
            "stored": inside.stored == held + words.o.valid,
            "room": inside.ready == (inside.stored != DEPTH + 1),
            "offered": (held <= 1) | words.o.valid,
        }
    )
    checker.rule("taken_room", ~(given.valid & given.ready) | words.i.ready)
    checker.words("i", "o", capacity=DEPTH + 1, drained=DEPTH + 3)
    checker.progress(4)
    checker.in_order("i", "o", DEPTH + 1)
