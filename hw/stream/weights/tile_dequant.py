"""RTL of `tile_dequant`: scales in registers, codes through a dequantiser a column, values past it."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.nf4.nf4_dequant import CODE
from ....golden.stream.frozen_base import SCALE_BITS, WEIGHT
from ....golden.stream.weights.tile_dequant import (
    BEAT_CODES,
    BLOCKS_BITS,
    LENGTH_BITS,
    MATRICES,
    TensorKind,
    TileDequantSpec,
)
from ...nf4.nf4_dequant import Nf4Dequant
from ...ports import elements, members
from ...primitives.mux_tree import mux_tree
from ...primitives.pipeline import Pipeline
from ...primitives.registers import replicas
from ...probe import probe


class TileDequant(wiring.Component):
    """Tensor after tensor: a beat of codes becomes a word of weights `spec.latency` (4) cycles later, or several words.

    A matrix in NF4 leaves by `o`, anything else by `v` in the cycle in which it comes.
    """

    def __init__(self, spec: TileDequantSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Follow a beat's place in its record; longer than most, as all flags are about that place."""
        m = Module()
        spec, beats = self.spec, self.beats
        active, final, left = Signal(), Signal(), Signal(LENGTH_BITS)
        # places of a record: its last beat, and the last one that counts in the last record of a group
        at, end, used = (Signal(range(spec.value_beats), name=name) for name in ("at", "end", "used"))
        coded, matrix, closing = Signal(), Signal(), Signal()
        blocks, block = Signal(BLOCKS_BITS), Signal(BLOCKS_BITS)
        given = self.operation.payload
        nf4, tiled = given.kind == TensorKind.NF4, given.kind.matches(*MATRICES)
        begins = self._begin(m, nf4, tiled, (active, coded, matrix, end, used, blocks))
        # flags beside the place, as handshakes wait for them: a beat of scales, the last one, the last one that counts
        scaling, ends, reached, skipping = Signal(), Signal(), Signal(), Signal()
        part, parts = Signal(range(max(BEAT_CODES // spec.width, 2))), BEAT_CODES // spec.width
        entering, room, whole = Signal(), Signal(), Signal()
        m.d.comb += [
            entering.eq(active & coded & ~scaling & ~skipping & beats.valid),
            whole.eq(part == parts - 1),
            beats.ready.eq(active & (scaling | skipping | Mux(coded, room & whole, self.v.ready))),
        ]
        if parts > 1:
            with m.If(entering & room):
                m.d.sync += part.eq(part + 1)
        taken, closes, sticky, error, last = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            taken.eq(beats.valid & beats.ready),
            # beside it: who is ready is known late
            closes.eq((ends & beats.valid) & beats.ready),
            error.eq(sticky | beats.payload.error),
            last.eq(final & Mux(closing, reached, ends)),
        ]
        following = Signal.like(at, name="following")
        m.d.comb += following.eq(at + 1)
        with m.If(taken):
            m.d.sync += [
                at.eq(following),
                scaling.eq(coded & (following < spec.scale_beats)),
                ends.eq(following == end),
                reached.eq(following == used),
                sticky.eq(error),
                skipping.eq(skipping | (closing & reached)),
            ]
        # chosen by a register: that a record closes is known late
        next_block = Mux(closing, blocks, block - 1)
        with m.If(closes | begins):
            m.d.sync += [
                Cat(at, reached, skipping).eq(0),
                # a record of a matrix has more than one beat, a value of a vector is one
                scaling.eq(Mux(active, coded, nf4)),
                ends.eq(~Mux(active, matrix, tiled)),
                left.eq(Mux(active, left - 1, given.length)),
                final.eq(Mux(active, left == 2, given.length == 1)),
                block.eq(Mux(active, next_block, given.blocks)),
                closing.eq(Mux(active, matrix & (next_block == 1), tiled & (given.blocks == 1))),
            ]
        with m.If(closes & final):
            m.d.sync += [active.eq(0), sticky.eq(0)]
        self._weights(m, active & scaling & beats.valid, at, entering, part)
        pipeline = Pipeline(m, {"code": 0, "weight": spec.latency}, enable=room)
        flags = pipeline.place("code", Cat(last & whole, error), "flags", reset_less=True)
        # those of the dequantisers have the same values, and enable all of their registers: too many for a handshake
        [under_way] = replicas(1, "under_way", spec.latency)
        m.d.comb += [
            self.o.valid.eq(pipeline.place_flag("code", entering, under_way).at("weight")),
            room.eq(~self.o.valid | self.o.ready),
            Cat(self.o.payload.last, self.o.payload.error).eq(flags.at("weight")),
        ]
        values, fields = self.v.payload, {name: port.fields for name, port in spec.streams().items()}
        pairs = zip(
            elements(values.value, fields["v"][0]), elements(beats.payload.data, fields["beats"][0]), strict=True
        )
        m.d.comb += [
            self.v.valid.eq(active & ~coded & ~skipping & beats.valid),
            *(value.eq(word[: len(value)]) for value, word in pairs),
            values.last.eq(last),
            values.error.eq(error),
        ]
        probe(self, at=at, coded=coded, scaling=scaling, skipping=skipping, sticky=sticky)
        probe(self, entering=entering, part=part, room=room)
        return m

    def _begin(self, m: Module, nf4: Value, tiled: Value, settings: tuple[Signal, ...]) -> Signal:
        """Take the next tensor when there is none; returns whether it is taken."""
        spec, given = self.spec, self.operation.payload
        active, coded, matrix, end, used, blocks = settings
        begins = Signal()
        m.d.comb += [self.operation.ready.eq(~active), begins.eq(self.operation.valid & ~active)]
        with m.If(begins):
            m.d.sync += [
                active.eq(1),
                coded.eq(nf4),
                blocks.eq(given.blocks),
                matrix.eq(tiled),
                end.eq(Mux(tiled, Mux(nf4, *(spec.record_beats(one) - 1 for one in MATRICES)), 0)),
                used.eq(
                    Mux(nf4, spec.scale_beats, 0)
                    + Mux(nf4, *(given.tiles.shift_left(exact_log2(spec.tile_beats(one))) for one in MATRICES))
                    - 1
                ),
            ]
        return begins

    def _weights(self, m: Module, scale: Value, at: Value, entering: Value, part: Value) -> None:
        """Keep scales, and dequantise a part of a beat's codes with them."""
        spec = self.spec
        data = Value.cast(self.beats.payload.data)
        a_beat = len(data) // SCALE_BITS
        codes = [
            data[place : place + spec.width * CODE.width] for place in range(0, len(data), spec.width * CODE.width)
        ]
        chosen = mux_tree(part, codes)
        weights = elements(self.o.payload.weight, spec.streams()["o"].fields[0])
        for column in range(spec.columns):
            own = Signal(SCALE_BITS, name=f"scale_{column}", reset_less=True)
            with m.If(scale & (at == column // a_beat)):
                m.d.sync += own.eq(data[column % a_beat * SCALE_BITS :][:SCALE_BITS])
            m.submodules[f"dequant_{column}"] = dequant = Nf4Dequant(spec.dequant)
            lanes = range(column, spec.width, spec.columns)
            inputs, results = (
                elements(getattr(port.payload, name), spec.dequant.streams()[stream].fields[0])
                for port, name, stream in ((dequant.i, "code", "i"), (dequant.o, "value", "o"))
            )
            m.d.comb += [
                dequant.i.valid.eq(entering),
                dequant.o.ready.eq(self.o.ready),
                # it divides by one more place than a weight of 18 bits needs
                dequant.i.payload.scale.eq(Cat(Const(0, 1), own)),
                *(code.eq(chosen[lane * CODE.width :][: CODE.width]) for code, lane in zip(inputs, lanes, strict=True)),
                *(weights[lane].eq(value[: WEIGHT.width]) for value, lane in zip(results, lanes, strict=True)),
            ]
