"""Rules of `ReadInterleave`: each read to one port, the port of its address, and all beats in the order of the reads.

A port may give beats at any time, also such as nobody asked for. The FIFO of reads keeps its order, see `formal_fifo`:
here a read enters it with its command, as it is, and leaves it where the one before has given its last beat. What it
gives is followed beat by beat.
"""

from __future__ import annotations

from amaranth.hdl import Signal, Value

from ...hw.axi.memory_port import OFFSET_BITS
from ...hw.axi.read_interleave import OUTSTANDING, ReadInterleave
from ..formal.checker import Checker
from ..formal.inside import parts_of, variables_of

CUT = ("memories",)
BURST_BITS = 2


def part() -> ReadInterleave:
    """Make one of short bursts."""
    return ReadInterleave(1 << BURST_BITS)


def check(checker: Checker, part: ReadInterleave) -> None:
    """Add the rules."""
    m, asked, beats = checker.m, part.read.command, part.read.beats
    checker.assume(~asked.valid | (asked.payload.beats != 0))
    reads = parts_of(checker.block).reads
    checker.inner("kept", reads.i)
    checker.inner("answered", reads.o)
    # the FIFO of reads gives what entered it, which is never a read of no beats
    checker.assume(~reads.o.valid | (reads.o.payload.beats != 0))

    odd = asked.payload.address[OFFSET_BITS + BURST_BITS]
    moves = checker.moves("read_command")
    for name, own in (("even", ~odd), ("odd", odd)):
        # a command waits for its port, and no other one of that port is taken until then
        command, waits = checker.streams[f"{name}_command"], Signal(name=f"{name}_waits_for_port")
        expected = Signal.like(Value.cast(asked.payload), name=f"{name}_expected")
        m.d.sync += waits.eq((moves & own) | (waits & ~command.ready))
        with m.If(moves & own):
            m.d.sync += expected.eq(asked.payload)
        checker.rule(f"{name}_asked", command.valid == waits)
        checker.rule(f"{name}_as_asked", ~waits | (Value.cast(command.payload) == expected))
        checker.rule(f"{name}_once", ~(moves & own & waits))
        checker.rule(f"{name}_taken", ~own | (asked.ready == (reads.i.ready & ~waits)))
    entry = reads.i.payload
    entered = (entry.odd == odd) & (entry.beats == asked.payload.beats)
    checker.rule("kept", (checker.moves("kept") == moves) & (~moves | entered))

    # the read whose beats come, followed from where it leaves the FIFO
    turn, left = Signal(name="turn"), Signal.like(asked.payload.beats, name="left")
    waiting = Signal(range(2 * OUTSTANDING), name="waiting")
    inside = variables_of(checker.block)
    given, begins, popped = checker.moves("read_beats"), inside.begins, Signal(name="popped_once")
    m.d.sync += [left.eq(left - given), waiting.eq(waiting + checker.moves("kept") - popped), popped.eq(begins)]
    # it stays on offer for the cycle in which it begins and the next one
    checker.rule("answered", checker.moves("answered") == popped)
    with m.If(begins):
        m.d.sync += [turn.eq(reads.o.payload.odd), left.eq(reads.o.payload.beats)]
    same = (inside.left == left) & (inside.odd == turn) & (inside.final == (left == 1))
    checker.lemma("followed", (inside.active == (left != 0)) & (~inside.active | same))
    checker.rule("one_at_a_time", ~begins | (left == 0) | ((left == 1) & given))
    checker.rule("no_more_than_asked", ~beats.valid | (left != 0))
    checker.lemma("kept_all", reads.empty == (waiting == 0))
    checker.rule("room", waiting <= OUTSTANDING + 1)
    for name, own in (("even", ~turn), ("odd", turn)):
        port = checker.streams[f"{name}_beats"]
        mine = (left != 0) & own
        checker.rule(f"{name}_in_turn", (port.ready == (mine & beats.ready)) & (~mine | (beats.valid == port.valid)))
        checker.rule(f"{name}_as_given", ~(mine & beats.valid) | (beats.payload == port.payload))
    # behind the last beat of a read that of the next one may come at once
    checker.rule("no_gap", ~(reads.o.valid & ~popped & ((left == 0) | (given & (left == 1)))) | begins)
    checker.passes("known", (waiting != 0) & ~(reads.o.valid & ~popped) & (left == 0), 3)
