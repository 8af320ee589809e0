"""Rules of `ReadInterleave`: each read to one port, the one that is told, and all beats in the order of the reads.

A port may give beats at any time, also such as nobody asked for. The FIFO of reads keeps its order, see `formal_fifo`:
here a read enters it with its command, as it is, and leaves it where the one before has given its last beat. What it
gives is followed beat by beat.
"""

from __future__ import annotations

from amaranth.hdl import Signal, Value

from ...hw.axi.read_interleave import OUTSTANDING, ReadInterleave
from ..formal.checker import Checker
from ..formal.inside import parts_of, probe_of

CUT = ("memories",)
PORTS = 3


def part() -> ReadInterleave:
    """Make one of three ports."""
    return ReadInterleave(PORTS)


def check(checker: Checker, part: ReadInterleave) -> None:
    """Add the rules."""
    m, asked, beats = checker.m, part.read.command, part.read.beats
    checker.assume(~asked.valid | ((asked.payload.beats != 0) & (asked.payload.beats <= part.most)))
    reads = parts_of(checker.block).reads
    checker.inner("kept", reads.i)
    checker.inner("answered", reads.o)
    # the FIFO of reads gives what entered it, which is never a read of no beats
    checker.assume(~reads.o.valid | (reads.o.payload.beats != 0))

    told = part.port
    checker.assume(~asked.valid | (told < PORTS))
    # the port of a read that waits does not change
    refused, before = Signal(name="refused"), Signal.like(told, name="told_before")
    checker.m.d.sync += [refused.eq(asked.valid & ~asked.ready), before.eq(told)]
    checker.assume(~refused | (told == before))
    _commands(checker, part, told)
    moves, entry = checker.moves("read_command"), reads.i.payload
    entered = (entry.port == told) & (entry.beats == asked.payload.beats)
    checker.rule("kept", (checker.moves("kept") == moves) & (~moves | entered))

    # the read whose beats come, followed from where it leaves the FIFO
    turn, left = Signal.like(told, name="turn"), Signal.like(asked.payload.beats, name="left")
    waiting = Signal(range(2 * OUTSTANDING), name="waiting")
    inside = probe_of(checker.block)
    given, begins, popped = checker.moves("read_beats"), inside.begins, Signal(name="popped_once")
    m.d.sync += [left.eq(left - given), waiting.eq(waiting + checker.moves("kept") - popped), popped.eq(begins)]
    # it stays on offer for the cycle in which it begins and the next one
    checker.rule("answered", checker.moves("answered") == popped)
    with m.If(begins):
        m.d.sync += [turn.eq(reads.o.payload.port), left.eq(reads.o.payload.beats)]
    same = (inside.left == left) & (inside.turn == turn) & (inside.final == (left == 1))
    checker.lemma("followed", (inside.active == (left != 0)) & (~inside.active | same))
    checker.rule("one_at_a_time", ~begins | (left == 0) | ((left == 1) & given))
    checker.rule("no_more_than_asked", ~beats.valid | (left != 0))
    checker.lemma("kept_all", reads.empty == (waiting == 0))
    checker.rule("room", waiting <= OUTSTANDING + 1)
    for number in range(PORTS):
        name, port = f"port{number}", checker.streams[f"port{number}_beats"]
        mine = (left != 0) & (turn == number)
        checker.rule(f"{name}_in_turn", (port.ready == (mine & beats.ready)) & (~mine | (beats.valid == port.valid)))
        checker.rule(f"{name}_as_given", ~(mine & beats.valid) | (beats.payload == port.payload))
    # behind the last beat of a read that of the next one may come at once
    checker.rule("no_gap", ~(reads.o.valid & ~popped & ((left == 0) | (given & (left == 1)))) | begins)
    checker.passes("known", (waiting != 0) & ~(reads.o.valid & ~popped) & (left == 0), 3)


def _commands(checker: Checker, part: ReadInterleave, told: Value) -> None:
    """A command waits for its port, and no other one of that port is taken until then; or, if `direct`, none waits."""
    m, asked, moves = checker.m, part.read.command, checker.moves("read_command")
    room = parts_of(checker.block).reads.i.ready
    for number in range(PORTS):
        name, own = f"port{number}", told == number
        command = checker.streams[f"{name}_command"]
        if part.direct:
            checker.rule(f"{name}_asked", command.valid == (asked.valid & own & room))
            checker.rule(f"{name}_as_asked", ~command.valid | (command.payload == asked.payload))
            checker.rule(f"{name}_taken", ~own | (asked.ready == (room & command.ready)))
            continue
        waits = Signal(name=f"{name}_waits_for_port")
        expected = Signal.like(Value.cast(asked.payload), name=f"{name}_expected")
        m.d.sync += waits.eq((moves & own) | (waits & ~command.ready))
        with m.If(moves & own):
            m.d.sync += expected.eq(asked.payload)
        checker.rule(f"{name}_asked", command.valid == waits)
        checker.rule(f"{name}_as_asked", ~waits | (Value.cast(command.payload) == expected))
        checker.rule(f"{name}_once", ~(moves & own & waits))
        checker.rule(f"{name}_taken", ~own | (asked.ready == (room & ~waits)))
