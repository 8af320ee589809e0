"""RTL of `tile_dequant`: scale registers, a dequantiser of codes for each column, and a bypass for values."""

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
    """Convert the beats of tensors to weights.

    A beat of NF4 codes leaves at `o`, `spec.latency` (4) cycles later, as one word or several. The beats of all other
    tensors leave at `v`, in the cycle of arrival.
    """

    def __init__(self, spec: TileDequantSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Track a beat's position in its record; longer than most functions, as all flags depend on this position."""
        m = Module()
        spec, beats = self.spec, self.beats
        active, final, remaining = Signal(), Signal(), Signal(LENGTH_BITS)
        # beat indices in a record: current beat, last beat, and last used beat of a group's last record
        index, end, used = (Signal(range(spec.value_beats), name=name) for name in ("at", "end", "used"))
        coded, matrix, closing = Signal(), Signal(), Signal()
        blocks, block = Signal(BLOCKS_BITS), Signal(BLOCKS_BITS)
        tensor = self.operation.payload
        nf4, tiled = tensor.kind == TensorKind.NF4, tensor.kind.matches(*MATRICES)
        begins = self._begin(m, nf4, tiled, (active, coded, matrix, end, used, blocks))
        # registered flags for the handshakes: the beat holds scales; is the last; is the last used; is unused
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
            # timing: `ready` settles late in the cycle; the parentheses put it last
            closes.eq((ends & beats.valid) & beats.ready),
            error.eq(sticky | beats.payload.error),
            last.eq(final & Mux(closing, reached, ends)),
        ]
        following = Signal.like(index, name="following")
        m.d.comb += following.eq(index + 1)
        with m.If(taken):
            m.d.sync += [
                index.eq(following),
                scaling.eq(coded & (following < spec.scale_beats)),
                ends.eq(following == end),
                reached.eq(following == used),
                sticky.eq(error),
                skipping.eq(skipping | (closing & reached)),
            ]
        # timing: the end of a record settles late in the cycle, so the next record's values are in registers
        next_block = Mux(closing, blocks, block - 1)
        with m.If(closes | begins):
            m.d.sync += [
                Cat(index, reached, skipping).eq(0),
                # a record of a matrix has several beats, a record of a vector has one
                scaling.eq(Mux(active, coded, nf4)),
                ends.eq(~Mux(active, matrix, tiled)),
                remaining.eq(Mux(active, remaining - 1, tensor.length)),
                final.eq(Mux(active, remaining == 2, tensor.length == 1)),
                block.eq(Mux(active, next_block, tensor.blocks)),
                closing.eq(Mux(active, matrix & (next_block == 1), tiled & (tensor.blocks == 1))),
            ]
        with m.If(closes & final):
            m.d.sync += [active.eq(0), sticky.eq(0)]
        self._weights(m, active & scaling & beats.valid, index, entering, part)
        pipeline = Pipeline(m, {"code": 0, "weight": spec.latency}, enable=room)
        flags = pipeline.place("code", Cat(last & whole, error), "flags", reset_less=True)
        # copies of the dequantisers' valid flags, as those have too high a fanout for the handshake
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
        probe(self, at=index, coded=coded, scaling=scaling, skipping=skipping, sticky=sticky)
        probe(self, entering=entering, part=part, room=room)
        return m

    def _begin(self, m: Module, nf4: Value, tiled: Value, settings: tuple[Signal, ...]) -> Signal:
        """Accept the next tensor while idle; returns a flag: a tensor is accepted."""
        spec, tensor = self.spec, self.operation.payload
        active, coded, matrix, end, used, blocks = settings
        begins = Signal()
        m.d.comb += [self.operation.ready.eq(~active), begins.eq(self.operation.valid & ~active)]
        with m.If(begins):
            m.d.sync += [
                active.eq(1),
                coded.eq(nf4),
                blocks.eq(tensor.blocks),
                matrix.eq(tiled),
                end.eq(Mux(tiled, Mux(nf4, *(spec.record_beats(kind) - 1 for kind in MATRICES)), 0)),
                used.eq(
                    Mux(nf4, spec.scale_beats, 0)
                    + Mux(nf4, *(tensor.tiles.shift_left(exact_log2(spec.tile_beats(kind))) for kind in MATRICES))
                    - 1
                ),
            ]
        return begins

    def _weights(self, m: Module, scale: Value, index: Value, entering: Value, part: Value) -> None:
        """Store scales, and dequantise a slice of a beat's codes with the scales."""
        spec = self.spec
        data = Value.cast(self.beats.payload.data)
        a_beat = len(data) // SCALE_BITS
        codes = [
            data[start : start + spec.width * CODE.width] for start in range(0, len(data), spec.width * CODE.width)
        ]
        chosen = mux_tree(part, codes)
        weights = elements(self.o.payload.weight, spec.streams()["o"].fields[0])
        for column in range(spec.columns):
            stored = Signal(SCALE_BITS, name=f"scale_{column}", reset_less=True)
            with m.If(scale & (index == column // a_beat)):
                m.d.sync += stored.eq(data[column % a_beat * SCALE_BITS :][:SCALE_BITS])
            m.submodules[f"dequant_{column}"] = dequant = Nf4Dequant(spec.dequant)
            lanes = range(column, spec.width, spec.columns)
            inputs, results = (
                elements(getattr(port.payload, name), spec.dequant.streams()[stream].fields[0])
                for port, name, stream in ((dequant.i, "code", "i"), (dequant.o, "value", "o"))
            )
            m.d.comb += [
                dequant.i.valid.eq(entering),
                dequant.o.ready.eq(self.o.ready),
                # twice the scale, as the dequantiser shifts one place further than weights of 18 bits need
                dequant.i.payload.scale.eq(Cat(Const(0, 1), stored)),
                *(code.eq(chosen[lane * CODE.width :][: CODE.width]) for code, lane in zip(inputs, lanes, strict=True)),
                *(weights[lane].eq(value[: WEIGHT.width]) for value, lane in zip(results, lanes, strict=True)),
            ]
