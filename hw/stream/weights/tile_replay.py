"""Double buffer of tiles; each tile is read once for each perturbation sign."""

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
    """Store a tile while the previous tile leaves, a beat a cycle, with a latency of two cycles.

    Each sign has its own copy of a tile, as corrections may differ between the signs.

    Attributes
    ----------
    free : Out(1)
        A tile has space from the next cycle on: its weights may be written then.
    enable : In(spec.width)
        Write enable for each lane.
    beat : In
        Beat to which the lanes are written.
    plus, minus : In, lanes of 18 bits
        Weights of both signs.
    done : In(1)
        The tile is complete; `enable` must be 0 in this cycle. `tuned`, `error` and `tile` describe this tile.
    tuned : In(1)
        The tile needs a word of offsets.
    error, tile : In
        Values that accompany the tile to `w`.
    waits : Out(1)
        A buffered tile needs a word of offsets.
    offered : In(1)
        `offsets` is valid; stable until `take`.
    offsets : In, ``plus``, ``minus``
        Word of offsets, of which 19 bits of each offset are used.
    take : Out(1)
        The word is consumed.
    w : Out, stream of ``weight``, ``side``, ``last``, ``error``, ``tile``
        As in `TileWeights`.
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
        """Fill a bank while the other bank is read; longer than most functions, as all flags depend on both banks."""
        m = Module()
        spec, w = self.spec, self.w
        fill, drain = Signal(), Signal()
        # the bank read next holds a tile; both banks do; the first, the second, either tile needs a word of offsets
        present, both, current, following, waits = Signal(), Signal(), Signal(), Signal(), Signal()
        error = Signal(2)
        tiles = [Signal(self._tile.width, name=f"tile_{bank}", reset_less=True) for bank in range(2)]
        index, side = Signal(range(spec.tile_beats)), Signal()
        # pipeline enables: `move` for the wide lane registers, `moves` for control; each has its copy of `valid`
        valid = replicas(2, "valid")
        move, moves, offer, step, leaves = Signal(), Signal(), Signal(), Signal(), Signal()
        # registered flags: first beat, last beat, last beat of the second sign, beat that needs a word
        start, end, final, needs = Signal(init=1), Signal(), Signal(), Signal()
        m.d.comb += [
            self.waits.eq(waits),
            w.valid.eq(valid[0]),
            move.eq(~valid[0] | w.ready),
            moves.eq(~valid[1] | w.ready),
            offer.eq(present & (~needs | self.offered)),
            step.eq(offer & moves),
            leaves.eq(step & final),
            self.free.eq(leaves | ~(both | self.done & present)),
            # the word serves both signs and is consumed with minus
            self.take.eq(step & needs & side),
        ]
        with m.If(self.done):
            m.d.sync += fill.eq(~fill)
        with m.If(step):
            before = index == spec.tile_beats - 2
            m.d.sync += [index.eq(index + 1), start.eq(end), end.eq(before), final.eq(before & side)]
        with m.If(step & end):
            m.d.sync += [side.eq(~side), drain.eq(drain ^ side)]
        # the next tile to leave needs a word: a buffered tile, or the tile that arrives
        comes = self.done & self.tuned
        after, begins = following | comes, current | comes & ~present
        m.d.sync += [
            present.eq(self.done | both | (present & ~leaves)),
            both.eq((both | self.done & present) & ~leaves),
            current.eq(Mux(leaves, after, begins)),
            following.eq((following | comes & present) & ~leaves),
            waits.eq(after | current & ~leaves),
            needs.eq(Mux(step, Mux(final, after, end & current), start & begins)),
        ]
        for bank in range(2):
            with m.If(self.done & (fill == bank)):
                m.d.sync += [error[bank].eq(self.error), tiles[bank].eq(self.tile)]
        weights, turned = (
            self._memories(platform, m, fill, drain, index, side, move),
            self._offsets(m, offer & move, start, needs, side),
        )
        flags = Signal(layout(spec.streams()["w"]), reset_less=True)
        read = Signal()
        with m.If(moves):
            m.d.sync += [read.eq(offer), *(flag.eq(read) for flag in valid)]
        with m.If(move):
            m.d.sync += [
                flags.side.eq(side),
                flags.last.eq(end),
                flags.error.eq(error.bit_select(drain, 1)),
                flags.tile.eq(Mux(drain, tiles[1], tiles[0])),
            ]
        self._sums(m, move, flags, weights, turned)
        probe(self, fill=fill, drain=drain, there=present, both=both, own=current, following=following, waits=waits)
        probe(self, at=index, side=side, start=start, end=end, final=final, needs=needs, read=read, valid=valid)
        return m

    def _sums(self, m: Module, move: Signal, flags: Any, weights: list[Signal], turned: list[Signal]) -> None:
        """Add offsets to weights and saturate; register the beat's flags too."""
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
        self, platform: object, m: Module, fill: Signal, drain: Signal, index: Signal, side: Signal, move: Signal
    ) -> list[Signal]:
        (planned,) = self.spec.memories
        weights = []
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
                    port.addr[:-1].eq(index),
                    port.addr[-1].eq(drain),
                ]
                read.append(port.data)
            weight = Signal(signed(WEIGHT.width), name=f"weight_{lane}", reset_less=True)
            with m.If(move):
                m.d.sync += weight.eq(Mux(side, read[1], read[0]))
            weights.append(weight)
        return weights

    def _offsets(self, m: Module, step: Signal, start: Signal, needs: Signal, side: Signal) -> list[Signal]:
        """Offsets of a sign, in the lane order of the current beat; the registers rotate with each beat."""
        spec = self.spec
        field = spec.streams()["offsets"].fields[0]
        words = [elements(getattr(self.offsets, name), field) for name in ("plus", "minus")]
        turned = [Signal(signed(TILE_OFFSET.width), name=f"offset_{j}", reset_less=True) for j in range(spec.numbers)]
        for j, offset in enumerate(turned):
            selected = Mux(side, words[1][j], words[0][j])[: OFFSET.width][: TILE_OFFSET.width]
            # an AND, as synthesis would turn a multiplexer with 0 into a synchronous reset, which is slower
            selected = selected & needs.replicate(len(selected))
            before = turned[(j + spec.width) % spec.numbers] & (~start).replicate(len(selected))
            with m.If(step):
                m.d.sync += offset.eq((selected | before).as_signed())
        return turned
