"""Rules of `WriteArbiter`: each command is forwarded once, by rank, then exactly its beats from its requester."""

from __future__ import annotations

from amaranth.hdl import Signal

from ...golden.axi.bus import BEAT_COUNT_BITS
from ...hw.axi.arbiter import WriteArbiter
from ..formal.checker import Checker
from .formal_read_arbiter import NAMES, grants


def part() -> WriteArbiter:
    return WriteArbiter(NAMES)


def check(checker: Checker, part: WriteArbiter) -> None:
    """Assumes commands with at least one beat."""
    m, o = checker.m, part.o
    for name in NAMES:
        command = getattr(part, f"{name}_write").command
        checker.assume(~command.valid | (command.payload.beats != 0))
    # requester and remaining beats of the current command
    missing, owner = Signal(BEAT_COUNT_BITS, name="missing"), Signal(range(len(NAMES)), name="owner")
    number = grants(checker, [f"{name}_write_command" for name in NAMES], missing == 0)
    with m.If(checker.moves("command")):
        m.d.sync += [missing.eq(part.command.payload.beats), owner.eq(number)]
    with m.Elif(checker.moves("o")):
        m.d.sync += missing.eq(missing - 1)
    checker.rule("idle", part.idle == (missing == 0))
    for at, name in enumerate(NAMES):
        beats, owns = getattr(part, f"{name}_write").beats, (missing != 0) & (owner == at)
        checker.rule(f"{name}_beats", beats.ready == (owns & o.ready))
        checker.rule(f"{name}_passed", ~owns | ((o.valid == beats.valid) & (~o.valid | (o.payload == beats.payload))))
    checker.rule("none_made", ~o.valid | (missing != 0))
