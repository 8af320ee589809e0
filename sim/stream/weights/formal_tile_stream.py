"""Rules of `tile_stream`: all beats are requested, only with free buffer space, and tiles are numbered in order.

FIFO and splitter have proofs of their own.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

from ....golden.stream.weights.tile_stream import BEAT_CORRECTIONS, TileStreamSpec
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of

SPEC = TileStreamSpec(lanes=8, columns=4, depth=4, correction_depth=4, burst=2, address=16)
CUT = ("memories",)
_MOST = 3
"""Assumed largest number of a tensor's beats and of a list's weights; the block's counters work for any number."""


def check(checker: Checker, spec: TileStreamSpec) -> None:
    """Assumes tensors of a few beats, and a memory that returns only requested beats."""
    parts = parts_of(checker.block)
    reads, lists = checker.payload("reads"), checker.payload("correction_reads")
    for name, count in (("reads", reads.beats), ("correction_reads", lists.weights)):
        checker.assume(~checker.streams[name].valid | (count != 0) & (count <= _MOST))
    beats = Signal(range(_MOST + 1), name="list_beats")
    checker.m.d.comb += beats.eq((lists.weights[:2] + 1) >> 1)
    assert BEAT_CORRECTIONS == 2
    tile = checker.block.place.tile
    # without reset: a restart must not change the comparison
    before, known = Signal.like(tile, name="tile_before", reset_less=True), Signal(name="tile_known")
    checker.m.d.sync += [before.eq(tile), known.eq(1)]
    checker.rule("tile_steps", ~known | (tile == 0) | (tile == before) | (tile == before + 1))
    _idle(checker)
    _reads(checker, spec, "reads", "", parts.reader, reads.beats[:2])
    _reads(checker, spec, "correction_reads", "correction_", parts.correction_reader, beats)


def _idle(checker: Checker) -> None:
    """Prove `idle`: each accepted tensor's last beat has arrived, and each accepted list's last weight has left."""
    inside, rests = probe_of(checker.block), []
    for name, ends in (("tensors", inside.tensor_ends), ("corrections", inside.list_ends)):
        under_way = Signal(4, name=f"{name}_under_way")
        begins = checker.moves("reads" if name == "tensors" else "correction_reads")
        checker.m.d.sync += under_way.eq(under_way + begins - ends)
        rests.append(under_way == 0)
    checker.rule("idle", checker.block.idle == Cat(rests).all())


def _reads(checker: Checker, spec: TileStreamSpec, reads: str, prefix: str, reader: object, beats: Value) -> None:
    """Rules of one reader."""
    m, inside, parts = checker.m, probe_of(reader), parts_of(reader)
    command, fetched = f"{prefix}command", f"{prefix}fetched"
    port, comes = checker.streams[fetched], checker.moves(fetched)
    asked = checker.payload(command).beats
    # numbers of requested beats not received yet, and of buffered beats
    due, stored = (Signal(range(2 * spec.depth), name=f"{prefix}{name}") for name in ("due", "stored"))
    m.d.sync += [
        due.eq(due + Mux(checker.moves(command), asked[:2], 0) - comes),
        stored.eq(stored + comes - inside.taken),
    ]
    checker.assume(~port.valid | (due != 0))
    checker.rule(f"{command}_size", ~checker.streams[command].valid | (asked != 0) & (asked <= spec.burst))
    # `free` is lowered in the cycle after the read
    checker.lemma(f"{prefix}read", ~inside.asked | parts.splitter.o.valid)
    checker.lemma(f"{prefix}room", inside.free - Mux(inside.asked, inside.length, 0) + stored + due == spec.depth)
    checker.rule(f"{fetched}_room", ~port.valid | parts.beats.i.ready)
    gains = [(checker.moves(reads) & beats[bit], 1 << bit) for bit in range(2)]
    offers = [
        (checker.streams[command].valid & asked[bit], checker.moves(command) & asked[bit], 1 << bit) for bit in range(2)
    ]
    checker.balance(f"{prefix}asked", gains, offers, 2 * _MOST)
