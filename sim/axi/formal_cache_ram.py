"""Rules of `CacheRam`: a read returns the stored beats, the last marked; a written beat is stored once.

Commands have any number of beats; reads and writes overlap. No rule covers the data of a row read while it is written.
`formal_fifo` proves the order of beats in the FIFO; here: each beat enters in command order, and the FIFO never
overflows. Two bits of a beat stand for all 128.
"""

from __future__ import annotations

from amaranth.hdl import Array, Const, Mux, Signal, Value

from ...golden.axi.bus import BEAT_COUNT_BITS
from ...hw.axi.cache_ram import CacheRam
from ..formal.checker import Checker
from ..formal.inside import parts_of

ROWS, FIFO_DEPTH, BITS = 4, 8, 2


def part() -> CacheRam:
    return CacheRam(ROWS)


def check(checker: Checker, part: CacheRam) -> None:
    m = checker.m
    for name in ("read", "write"):
        port = checker.streams[name]
        checker.assume(~port.valid | (port.payload.beats != 0))
    written, row = _write(checker, part)
    rows = Array(Signal(BITS, name=f"row{at}", reset_less=True) for at in range(ROWS))
    with m.If(written):
        m.d.sync += rows[row].eq(part.i.payload[:BITS])
    _read(checker, part, rows, written, row)


def _write(checker: Checker, part: CacheRam) -> tuple[Value, Signal]:
    """Rules of the write side; returns the flag of a written beat, and its row."""
    m = checker.m
    row, beats_left = Signal(range(ROWS), name="write_row"), Signal(BEAT_COUNT_BITS, name="write_left")
    with m.If(checker.moves("write")):
        m.d.sync += [row.eq(part.write.payload.address[4:]), beats_left.eq(part.write.payload.beats)]
    with m.Elif(checker.moves("i")):
        m.d.sync += [row.eq(row + 1), beats_left.eq(beats_left - 1)]
    checker.rule("write_idle", (part.idle == (beats_left == 0)) & (part.write.ready == part.idle))
    checker.rule("write_takes", part.i.ready == (beats_left != 0))
    return checker.moves("i"), row


def _read(checker: Checker, part: CacheRam, rows: Array[Signal], written: Value, write_row: Signal) -> None:
    m, beats = checker.m, parts_of(checker.block).beats_read
    checker.inner("stored", beats.i)
    row, beats_left = Signal(range(ROWS), name="read_row"), Signal(BEAT_COUNT_BITS, name="read_left")
    room = Signal(range(FIFO_DEPTH + 1), name="room", init=FIFO_DEPTH)
    reads = (beats_left != 0) & (room != 0)
    m.d.sync += room.eq(room - reads + checker.moves("o"))
    with m.If(checker.moves("read")):
        m.d.sync += [row.eq(part.read.payload.address[4:]), beats_left.eq(part.read.payload.beats)]
    with m.Elif(reads):
        m.d.sync += [row.eq(row + 1), beats_left.eq(beats_left - 1)]
    checker.lemma("read_takes", part.read.ready == (beats_left == 0))

    # beats in the memory's pipeline registers: valid, last, known, data
    now = (reads, beats_left == 1, ~(written & (row == write_row)), rows[row])
    stages = [
        [Signal(width, name=f"{name}{at}") for name, width in (("valid", 1), ("last", 1), ("known", 1), ("data", BITS))]
        for at in range(CacheRam.LATENCY)
    ]
    for before, after in zip([now, *stages], stages, strict=False):
        m.d.sync += [register.eq(previous) for register, previous in zip(after, before, strict=True)]
    valid, last, known, data = stages[-1]
    checker.lemma("read_beats", beats.i.valid == valid)
    stored = checker.words("stored", "o", capacity=FIFO_DEPTH, drained=0)
    on_way = sum((stage[0] for stage in stages), Value.cast(0))
    checker.lemma("read_room", room + stored + on_way == FIFO_DEPTH)
    checker.rule("read_stored", ~valid | beats.i.ready)
    checker.rule("read_last", ~valid | (beats.i.payload.last == last))
    checker.rule("read_data", ~(valid & known) | (beats.i.payload.data[:BITS] == data))
    checker.rule("read_given", ~part.o.valid | (beats.o.valid & (part.o.payload == beats.o.payload)))
    slow = Signal(range(16), name="slow")
    waits = part.o.ready & (room != FIFO_DEPTH) & ~part.o.valid
    m.d.sync += slow.eq(Mux(waits, Mux(slow == 15, 15, slow + 1), Const(0)))
    checker.rule("read_latency", slow <= CacheRam.READ_LATENCY)
