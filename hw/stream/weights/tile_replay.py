"""Tiles that are given twice: two of them in LUT RAM, read with the offsets of one side and then of the other."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.frozen_base import WEIGHT
from ....golden.stream.weights.tile_weights import OFFSET, TILE_OFFSET, TileWeightsSpec
from ...ports import elements, layout
from ...primitives.ram import ram
from ...primitives.registers import replicas
from ...primitives.rounding import saturate
from ...probe import probe


class TileReplay(wiring.Component):
    """Store a tile while the one before leaves; a beat a cycle, two cycles after it is read.

    Each side has a copy of each tile, as corrections of both may differ.

    Attributes
    ----------
    free : Out(1)
        There will be room for a tile in the next cycle: weights may be written then.
    enable : In(spec.width)
        Lanes that are written.
    beat : In
        The beat that they are of.
    plus, minus : In, lanes of 18 bits
        Weights of both sides.
    done : In(1)
        The tile is complete; nothing is written in this cycle. It has:
    tuned : In(1)
        A word of offsets belongs to the tile.
    error, tile : In
        What leaves with it.
    waits : Out(1)
        A tile waits that takes a word of offsets.
    offered : In(1)
        The next word of offsets is there, held until `take`.
    offsets : In, ``plus``, ``minus``
        The word. Of each offset 19 bits are read.
    take : Out(1)
        The word is used up.
    w : Out, stream of ``weight``, ``side``, ``last``, ``error``, ``tile``
        As `TileWeights` has it.
    """

    def __init__(self, spec: TileWeightsSpec) -> None:
        self.spec = spec
        streams = spec.streams()
        weights = data.ArrayLayout(signed(WEIGHT.width), spec.width)
        self._tile = streams["w"].fields[-1].format
        super().__init__(
            {
                **dict.fromkeys(("free", "waits", "take"), Out(1)),
                **dict.fromkeys(("done", "tuned", "error", "offered"), In(1)),
                "enable": In(spec.width),
                "beat": In(range(spec.tile_beats)),
                "plus": In(weights),
                "minus": In(weights),
                "tile": In(self._tile.width),
                "offsets": In(layout(streams["offsets"])),
                "w": Out(stream.Signature(layout(streams["w"]))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill a bank while the other leaves; longer than most, as all flags are about the two banks."""
        m = Module()
        spec, w = self.spec, self.w
        # bank that is filled, and that leaves
        fill, drain = Signal(), Signal()
        # a tile is there, and a second one; whether they take words, and whether one of them does
        there, both, own, following, waits = Signal(), Signal(), Signal(), Signal(), Signal()
        error = Signal(2)
        tiles = [Signal(self._tile.width, name=f"tile_{bank}", reset_less=True) for bank in range(2)]
        at, side = Signal(range(spec.tile_beats)), Signal()
        # what is offered moves on: all that belongs to the lanes, and what says which beat comes next
        valid = replicas(2, "valid")
        move, moves, offer, step, leaves = Signal(), Signal(), Signal(), Signal(), Signal()
        # first and last beat, the last one of both sides, one that needs a word: registers, as all else is known late
        start, end, final, needs = Signal(init=1), Signal(), Signal(), Signal()
        m.d.comb += [
            self.waits.eq(waits),
            w.valid.eq(valid[0]),
            move.eq(~valid[0] | w.ready),
            moves.eq(~valid[1] | w.ready),
            offer.eq(there & (~needs | self.offered)),
            step.eq(offer & moves),
            leaves.eq(step & final),
            self.free.eq(leaves | ~(both | self.done & there)),
            # a word stays until the minus side has it
            self.take.eq(step & needs & side),
        ]
        with m.If(self.done):
            m.d.sync += fill.eq(~fill)
        with m.If(step):
            before = at == spec.tile_beats - 2
            m.d.sync += [at.eq(at + 1), start.eq(end), end.eq(before), final.eq(before & side)]
        with m.If(step & end):
            m.d.sync += [side.eq(~side), drain.eq(drain ^ side)]
        # whether the next tile to leave takes a word: one that waits, or comes
        comes = self.done & self.tuned
        after, begins = following | comes, own | comes & ~there
        m.d.sync += [
            there.eq(self.done | both | (there & ~leaves)),
            both.eq((both | self.done & there) & ~leaves),
            own.eq(Mux(leaves, after, begins)),
            following.eq((following | comes & there) & ~leaves),
            waits.eq(after | own & ~leaves),
            needs.eq(Mux(step, Mux(final, after, end & own), start & begins)),
        ]
        for bank in range(2):
            with m.If(self.done & (fill == bank)):
                m.d.sync += [error[bank].eq(self.error), tiles[bank].eq(self.tile)]
        weights, turned = (
            self._memories(platform, m, fill, drain, at, side, move),
            self._offsets(m, offer & move, start, needs, side),
        )
        flags = Signal(layout(spec.streams()["w"]), reset_less=True)
        read = Signal()
        with m.If(moves):
            m.d.sync += [read.eq(offer), *(one.eq(read) for one in valid)]
        with m.If(move):
            m.d.sync += [
                flags.side.eq(side),
                flags.last.eq(end),
                flags.error.eq(error.bit_select(drain, 1)),
                flags.tile.eq(Mux(drain, tiles[1], tiles[0])),
            ]
        self._sums(m, move, flags, weights, turned)
        probe(self, fill=fill, drain=drain, there=there, both=both, own=own, following=following, waits=waits)
        probe(self, at=at, side=side, start=start, end=end, final=final, needs=needs, read=read, valid=valid)
        return m

    def _sums(self, m: Module, move: Signal, flags: Any, weights: list[Signal], turned: list[Signal]) -> None:
        """Add offsets to weights, and saturate; what belongs to the beat goes with them."""
        spec = self.spec
        result = Signal.like(flags, name="result", reset_less=True)
        m.d.comb += self.w.payload.eq(result)
        with m.If(move):
            m.d.sync += [getattr(result, name).eq(getattr(flags, name)) for name in ("side", "last", "error", "tile")]
            for lane, (weight, moved) in enumerate(
                zip(weights, elements(result.weight, spec.streams()["w"].fields[0]), strict=True)
            ):
                exact = Signal(signed(TILE_OFFSET.width + 1), name=f"exact_{lane}")
                m.d.comb += exact.eq(weight + turned[lane % spec.numbers])
                m.d.sync += moved.eq(saturate(exact, WEIGHT.width))

    def _memories(
        self, platform: object, m: Module, fill: Signal, drain: Signal, at: Signal, side: Signal, move: Signal
    ) -> list[Signal]:
        """Weights of the beat that was read, of one side."""
        (planned,) = self.spec.memories
        found = []
        for lane in range(self.spec.width):
            read = []
            for name in ("plus", "minus"):
                m.submodules[f"{name}_{lane}"] = storage = ram(platform, planned, signed(WEIGHT.width))
                write, port = storage.write_port(), storage.read_port(domain="comb")
                m.d.comb += [
                    write.addr[:-1].eq(self.beat),
                    write.addr[-1].eq(fill),
                    write.data.eq(getattr(self, name)[lane]),
                    write.en.eq(self.enable[lane]),
                    port.addr[:-1].eq(at),
                    port.addr[-1].eq(drain),
                ]
                read.append(port.data)
            weight = Signal(signed(WEIGHT.width), name=f"weight_{lane}", reset_less=True)
            with m.If(move):
                m.d.sync += weight.eq(Mux(side, read[1], read[0]))
            found.append(weight)
        return found

    def _offsets(self, m: Module, step: Signal, start: Signal, needs: Signal, side: Signal) -> list[Signal]:
        """Offsets of a side in the order of the beat that was read: registers that turn from beat to beat."""
        spec = self.spec
        field = spec.streams()["offsets"].fields[0]
        words = [elements(getattr(self.offsets, name), field) for name in ("plus", "minus")]
        turned = [Signal(signed(TILE_OFFSET.width), name=f"offset_{j}", reset_less=True) for j in range(spec.numbers)]
        for j, offset in enumerate(turned):
            given = Mux(side, words[1][j], words[0][j])[: OFFSET.width][: TILE_OFFSET.width]
            # gates, as a multiplexer of 0 would become a reset, which comes a gate behind the enable
            given = given & needs.replicate(len(given))
            before = turned[(j + spec.width) % spec.numbers] & (~start).replicate(len(given))
            with m.If(step):
                m.d.sync += offset.eq((given | before).as_signed())
        return turned
