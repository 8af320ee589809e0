"""Rules of the FIFO with registered `ready`: those of `Fifo`; an accepted word always finds space in the inner FIFO."""

from __future__ import annotations

from ...hw.primitives.ready_fifo import ReadyFifo
from ..formal.checker import Checker
from ..formal.inside import parts_of, probe_of

DEPTH, WIDTH = 2, 2


def part() -> ReadyFifo:
    """Depth of two words plus the offered word. Two bits stand for any width."""
    return ReadyFifo(WIDTH, DEPTH)


def check(checker: Checker, part: ReadyFifo) -> None:
    """The counter equals the inner FIFO's level, and the FIFO offers a word whenever a word is stored."""
    input_port, inside, words = checker.streams["i"], probe_of(part), parts_of(part).words
    level = probe_of(words).level
    held = (level + 1)[: len(level)]
    checker.lemmas_together(
        {
            "stored": inside.stored == held + words.o.valid,
            "room": inside.ready == (inside.stored != DEPTH + 1),
            "offered": (held <= 1) | words.o.valid,
        }
    )
    checker.rule("taken_room", ~(input_port.valid & input_port.ready) | words.i.ready)
    checker.words("i", "o", capacity=DEPTH + 1, drained=DEPTH + 3)
    checker.progress(4)
    checker.in_order("i", "o", DEPTH + 1)
