"""Rules of `ReadInterleave`: each read goes to the selected port only, and beats return in the order of the reads.

Ports may offer beats at any time, even unrequested. `formal_fifo` proves the order in the FIFO of reads; here: a read
enters with its command and leaves after the previous read's last beat. The rules count the current read's beats.
"""

from __future__ import annotations

from amaranth.hdl import Signal, Value

from ...hw.axi.read_interleave import OUTSTANDING, ReadInterleave
from ..formal.checker import Checker
from ..formal.inside import parts_of, probe_of

CUT = ("memories",)
PORTS = 3


def part() -> ReadInterleave:
    return ReadInterleave(PORTS)


def check(checker: Checker, part: ReadInterleave) -> None:
    m, asked, beats = checker.m, part.read.command, part.read.beats
    checker.assume(~asked.valid | ((asked.payload.beats != 0) & (asked.payload.beats <= part.most)))
    reads = parts_of(checker.block).reads
    checker.inner("kept", reads.i)
    checker.inner("answered", reads.o)
    # no read of zero beats enters the FIFO, so none comes out
    checker.assume(~reads.o.valid | (reads.o.payload.beats != 0))

    port_number = part.port
    checker.assume(~asked.valid | (port_number < PORTS))
    # `port` is stable while the read waits
    refused, before = Signal(name="refused"), Signal.like(port_number, name="told_before")
    checker.m.d.sync += [refused.eq(asked.valid & ~asked.ready), before.eq(port_number)]
    checker.assume(~refused | (port_number == before))
    _commands(checker, part, port_number)
    moves, entry = checker.moves("read_command"), reads.i.payload
    entered = (entry.port == port_number) & (entry.beats == asked.payload.beats)
    checker.rule("kept", (checker.moves("kept") == moves) & (~moves | entered))

    # the current read, followed from the FIFO's output
    turn, left = Signal.like(port_number, name="turn"), Signal.like(asked.payload.beats, name="left")
    waiting = Signal(range(2 * OUTSTANDING), name="waiting")
    inside = probe_of(checker.block)
    beat_moves, begins, popped = checker.moves("read_beats"), inside.begins, Signal(name="popped_once")
    m.d.sync += [left.eq(left - beat_moves), waiting.eq(waiting + checker.moves("kept") - popped), popped.eq(begins)]
    # the FIFO still offers the read in the cycle after it begins
    checker.rule("answered", checker.moves("answered") == popped)
    with m.If(begins):
        m.d.sync += [turn.eq(reads.o.payload.port), left.eq(reads.o.payload.beats)]
    same = (inside.left == left) & (inside.turn == turn) & (inside.final == (left == 1))
    checker.lemma("followed", (inside.active == (left != 0)) & (~inside.active | same))
    checker.rule("one_at_a_time", ~begins | (left == 0) | ((left == 1) & beat_moves))
    checker.rule("no_more_than_asked", ~beats.valid | (left != 0))
    checker.lemma("kept_all", reads.empty == (waiting == 0))
    checker.rule("room", waiting <= OUTSTANDING + 1)
    for number in range(PORTS):
        name, port = f"port{number}", checker.streams[f"port{number}_beats"]
        mine = (left != 0) & (turn == number)
        checker.rule(f"{name}_in_turn", (port.ready == (mine & beats.ready)) & (~mine | (beats.valid == port.valid)))
        checker.rule(f"{name}_as_given", ~(mine & beats.valid) | (beats.payload == port.payload))
    # the next read begins with the last beat of the previous read: no cycle is lost
    checker.rule("no_gap", ~(reads.o.valid & ~popped & ((left == 0) | (beat_moves & (left == 1)))) | begins)
    checker.passes("known", (waiting != 0) & ~(reads.o.valid & ~popped) & (left == 0), 3)


def _commands(checker: Checker, part: ReadInterleave, port_number: Value) -> None:
    """A waiting command blocks further commands, to its own port only; with `direct` no command waits."""
    m, asked, moves = checker.m, part.read.command, checker.moves("read_command")
    room = parts_of(checker.block).reads.i.ready
    for number in range(PORTS):
        name, selected = f"port{number}", port_number == number
        command = checker.streams[f"{name}_command"]
        if part.direct:
            checker.rule(f"{name}_asked", command.valid == (asked.valid & selected & room))
            checker.rule(f"{name}_as_asked", ~command.valid | (command.payload == asked.payload))
            checker.rule(f"{name}_taken", ~selected | (asked.ready == (room & command.ready)))
            continue
        waits = Signal(name=f"{name}_waits_for_port")
        expected = Signal.like(Value.cast(asked.payload), name=f"{name}_expected")
        m.d.sync += waits.eq((moves & selected) | (waits & ~command.ready))
        with m.If(moves & selected):
            m.d.sync += expected.eq(asked.payload)
        checker.rule(f"{name}_asked", command.valid == waits)
        checker.rule(f"{name}_as_asked", ~waits | (Value.cast(command.payload) == expected))
        checker.rule(f"{name}_once", ~(moves & selected & waits))
        checker.rule(f"{name}_taken", ~selected | (asked.ready == (room & ~waits)))
