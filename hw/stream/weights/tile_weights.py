"""RTL of `tile_weights`: tiles are dequantised, corrected, and output twice, with offsets; vectors get offsets."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.frozen_base import WEIGHT
from ....golden.stream.weights.tile_dequant import BEAT_VALUES, MATRICES, Beats, TensorKind
from ....golden.stream.weights.tile_weights import OFFSET, OffsetKind, TileWeightsSpec
from ...ports import elements, members
from ...primitives.mux_tree import mux_tree
from ...primitives.pipeline import Pipeline
from ...primitives.registers import replicas
from ...primitives.rounding import saturate
from ...probe import probe
from .tile_dequant import TileDequant
from .tile_replay import TileReplay


class TileWeights(wiring.Component):
    """Output the weights of tensors for both perturbation signs: matrices at `w`, other values at `v`.

    A beat at `w` or a value at `v` leaves per cycle. A tensor begins once the previous matrix is in the tile memory, or
    the previous vector's last values were accepted.
    """

    def __init__(self, spec: TileWeightsSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Fill, correct and pass on tiles; longer than most functions, as all registers describe a tensor's state."""
        m = Module()
        spec = self.spec
        m.submodules.dequant = dequant = TileDequant(spec.dequant)
        m.submodules.replay = replay = TileReplay(spec)
        wiring.connect(m, wiring.flipped(self.beats), dequant.beats)
        wiring.connect(m, replay.w, wiring.flipped(self.w))
        settings = TensorRegisters.of(spec)
        active, correcting = Signal(), Signal()
        begins, tiled = self._operation(m, dequant, active, settings)

        due, good, fresh, wrong = Signal(), Signal(), Signal(init=1), Signal()
        tile, final, is_final = Signal.like(replay.tile), Signal(reset_less=True), Signal()
        held = self._held(m, tile, is_final)
        values = self._values(m, dequant, replay, settings, held.correction, due, good)

        # index in a tile, in groups of `BEAT_VALUES` weights
        index = Signal(range(spec.weights // BEAT_VALUES))
        filling, written, complete, finish = Signal(), Signal(), Signal(), Signal()
        coded_groups = spec.dequant.width // BEAT_VALUES
        m.d.comb += [
            dequant.o.ready.eq(filling),
            # a beat of a matrix is written at once; the values of a vector's beat leave one a cycle
            dequant.v.ready.eq(Mux(settings.matrix, filling, values.ends)),
            written.eq(filling & (dequant.o.valid | dequant.v.valid)),
            complete.eq(written & Mux(settings.coded, index[exact_log2(coded_groups) :].all(), index.all())),
        ]
        # timing: `filling` gates signals that settle late in the cycle, so it is registered
        fills = settings.matrix & active & Mux(correcting, finish & ~final, ~complete)
        m.d.sync += filling.eq(Mux(begins, tiled, fills) & replay.free)
        with m.If(written):
            m.d.sync += index.eq(index + Mux(settings.coded, coded_groups, 1))
        payloads, failed = (dequant.o.payload, dequant.v.payload), Signal(reset_less=True)
        m.d.comb += is_final.eq(Mux(complete, Mux(settings.coded, *(word.last for word in payloads)), final))
        m.d.sync += final.eq(is_final)
        corrects = Signal()
        with m.If(complete):
            m.d.sync += [
                correcting.eq(1),
                corrects.eq(settings.corrected),
                failed.eq(Mux(settings.coded, *(word.error for word in payloads))),
            ]

        # `due`: the correction belongs to the tile; corrections beyond the tensor's end belong to the last tile.
        # `good`: the order is right; valid a cycle later, still during the corrections of the tile
        low = exact_log2(spec.weights)
        top = Signal(low, reset_less=True)
        m.d.comb += [
            due.eq(corrects & held.present & held.reached),
            good.eq((values.place[low:] == tile) & (fresh | (values.place[:low] > top))),
        ]
        self._write(m, dequant, replay, values, settings.coded, written, index)
        m.d.comb += [
            held.used.eq(due & values.enough),
            finish.eq(correcting & ~values.busy & (~corrects | (held.present & ~held.reached))),
        ]
        with m.If(held.used):
            m.d.sync += [
                settings.remaining.eq(settings.remaining - 1),
                settings.single.eq(settings.remaining == 2),
                Cat(settings.corrected, corrects).eq((~settings.single).replicate(2)),
            ]
        with m.If(values.checks):
            m.d.sync += wrong.eq(wrong | ~good | values.error)
        with m.If(values.checks & good):
            m.d.sync += [top.eq(values.place), fresh.eq(0)]
        with m.If(finish):
            m.d.sync += [Cat(correcting, corrects).eq(0), fresh.eq(1), tile.eq(tile + 1), wrong.eq(wrong & ~final)]
        with m.If((finish & final) | (self.v.valid & self.v.ready & self.v.payload.last)):
            m.d.sync += active.eq(0)
        with m.If(begins):
            m.d.sync += [active.eq(1), tile.eq(0)]
        m.d.comb += [
            replay.done.eq(finish),
            replay.tuned.eq(settings.tuned),
            replay.error.eq(wrong | failed),
            replay.tile.eq(tile),
        ]
        probe(self, active=active, matrix=settings.matrix, corrected=settings.corrected, tile=tile, final=final)
        probe(self, at=index, filling=filling, correcting=correcting, corrects=corrects, wrong=wrong)
        return m

    def _operation(
        self, m: Module, dequant: TileDequant, active: Signal, settings: "TensorRegisters"
    ) -> tuple[Signal, Signal]:
        """Accept the next tensor while idle; returns flags: a tensor is accepted; it is a matrix."""
        tensor, begins = self.operation.payload, Signal()
        matrix, coded = Signal(), Signal()
        passed = dequant.operation
        m.d.comb += [
            passed.valid.eq(self.operation.valid & ~active),
            self.operation.ready.eq(passed.ready & ~active),
            begins.eq(passed.valid & passed.ready),
            coded.eq(tensor.kind == TensorKind.NF4),
            matrix.eq(tensor.kind.matches(*MATRICES)),
            *(getattr(passed.payload, name).eq(getattr(tensor, name)) for name in Beats._fields),
        ]
        rows, tiles = tensor.offsets == OffsetKind.ROW, tensor.offsets == OffsetKind.TILES
        first = Mux(~matrix & rows, tensor.first, 0)
        with m.If(begins):
            m.d.sync += [
                settings.matrix.eq(matrix),
                settings.coded.eq(coded),
                settings.wide.eq(tensor.kind == TensorKind.VALUES),
                settings.tuned.eq(matrix & tiles),
                settings.numbered.eq(Mux(matrix, tensor.offsets == OffsetKind.CORRECTIONS, tiles | rows)),
                settings.row.eq(~matrix & rows),
                settings.first.eq(first),
                settings.number.eq(first),
                settings.within.eq(0),
                settings.remaining.eq(tensor.corrections),
                settings.corrected.eq(tensor.corrections != 0),
                settings.single.eq(tensor.corrections == 1),
            ]
        return begins, matrix

    def _held(self, m: Module, tile: Signal, is_final: Signal) -> "Held":
        """Hold the next correction, with a registered comparison of its tile."""
        source, low = self.corrections, exact_log2(self.spec.weights)
        correction = Signal(source.payload.shape(), reset_less=True)
        present, used, loads, reached = Signal(), Signal(), Signal(), Signal(reset_less=True)
        m.d.comb += [loads.eq(~present | used), source.ready.eq(loads)]
        # the comparison may be a cycle old, as `tile` changes long before the next correction is used. Both comparisons
        # are written differently, or synthesis would share one comparator behind a multiplexer
        held_reached, next_reached = correction.place[low:] <= tile, tile >= source.payload.place[low:]
        m.d.sync += [present.eq(source.valid | ~loads), reached.eq(is_final | Mux(loads, next_reached, held_reached))]
        with m.If(loads):
            m.d.sync += correction.eq(source.payload)
        probe(self, correction=correction, there=present, reached=reached, correction_used=used)
        return Held(correction, present, reached, used)

    def _values(
        self,
        m: Module,
        dequant: TileDequant,
        replay: TileReplay,
        settings: "TensorRegisters",
        correction: Any,
        due: Signal,
        good: Signal,
    ) -> "Values":
        """Add offsets of both signs to a value a cycle: a due correction, or the next value of a vector.

        Longer than most functions, as both use the same pipeline.
        """
        spec, v, vector = self.spec, self.v, dequant.v.payload
        enough, taken, end, final = Signal(), Signal(), Signal(), Signal()
        # two copies of the valid flag: for handshakes, and for the wide value registers
        offered, keeps = replicas(2, "offered")
        move, loads = ~offered | v.ready, ~keeps | v.ready
        # timing: the flag of the last lane is in the handshake's path, so it is registered
        lane, last_lane = Signal(range(BEAT_VALUES)), Signal()
        m.d.comb += [
            v.valid.eq(offered),
            enough.eq(~settings.numbered | self.offsets.valid & ~replay.waits),
            # corrections need not wait for `v`, as the previous vector has left
            taken.eq(Mux(settings.matrix, due, dequant.v.valid & move) & enough),
            end.eq(~settings.matrix & last_lane),
            final.eq(Mux(settings.matrix, settings.single, vector.last & end)),
        ]
        with m.If(taken & ~settings.matrix):
            m.d.sync += [lane.eq(lane + 1), last_lane.eq(lane == BEAT_VALUES - 2)]
        numbers = self._numbers(m, settings, taken, final, replay)

        pipeline = Pipeline(m, {"taken": 0, "operands": 1, "sum": 1, "result": 1}, enable=loads)
        under_way = Signal(3)
        valid = pipeline.place_flag("taken", taken, under_way)
        value = Signal(signed(Q8_16.width), reset_less=True)
        of_vector = mux_tree(lane, elements(vector.value, spec.dequant.streams()["v"].fields[0])).as_signed()
        pipeline.load(value, Mux(settings.matrix, correction.value, of_vector))
        ends = pipeline.place("taken", end, "end", reset_less=True).at("sum")
        flags = pipeline.place("taken", Cat(vector.last, vector.error), "flags", reset_less=True).at("sum")
        for side, number in zip(("plus", "minus"), numbers, strict=True):
            offset = Signal(signed(OFFSET.width), name=f"{side}_offset", reset_less=True)
            exact = Signal(signed(Q8_16.width + 1), name=f"{side}_sum", reset_less=True)
            pipeline.load(offset, Mux(settings.numbered, number, 0))
            pipeline.load(exact, value + offset)
            result = Signal(signed(Q8_16.width), name=f"{side}_result")
            m.d.comb += result.eq(Mux(settings.wide, saturate(exact, Q8_16.width), saturate(exact, WEIGHT.width)))
            values = Signal(BEAT_VALUES * Q8_16.width, name=f"{side}_values", reset_less=True)
            with m.If(loads & valid.at("sum")):
                m.d.sync += values.eq(Cat(values[Q8_16.width :], result))
            m.d.comb += Value.cast(getattr(v.payload, side)).eq(values)
        with m.If(move & valid.at("sum")):
            m.d.sync += [v.payload.last.eq(flags[0]), v.payload.error.eq(flags[1])]
        with m.If(move):
            m.d.sync += [flag.eq(valid.at("sum") & ends) for flag in (offered, keeps)]
        checked = pipeline.place("taken", Cat(correction.place, correction.error), "checked", reset_less=True)
        place, error = checked.at("operands")[:-1], checked.at("operands")[-1]
        written = Cat(good & settings.matrix, place[: exact_log2(spec.weights)])
        written = pipeline.place("operands", written, "written", reset_less=True).at("result")
        probe(self, keeps=keeps, under_way=under_way)
        return Values(
            enough,
            move & enough & last_lane,
            under_way.any(),
            valid.at("operands") & settings.matrix,
            place,
            error,
            valid.at("result") & written[0],
            written[1:],
        )

    def _numbers(
        self, m: Module, settings: "TensorRegisters", taken: Signal, final: Signal, replay: TileReplay
    ) -> tuple[Value, Value]:
        """Offsets of the next value, for both signs; an offset word ends with its last value, or with the tensor."""
        spec, word = self.spec, self.offsets.payload
        number, within = settings.number, settings.within
        full, used = Signal(), Signal()
        ends = [within[: exact_log2(values)].all() for values in (spec.width, spec.lanes, spec.weights)]
        m.d.comb += [
            full.eq(Mux(settings.matrix, ends[0], Mux(settings.row, ends[1], ends[2]))),
            used.eq(taken & settings.numbered & (full | final)),
            self.offsets.ready.eq(replay.take | used),
            replay.offered.eq(self.offsets.valid),
            replay.offsets.eq(word),
        ]
        moved = Signal(range(2 * spec.numbers))
        m.d.comb += moved.eq(number + Mux(settings.row, spec.columns % spec.numbers, 1))
        with m.If(taken & settings.numbered):
            m.d.sync += [
                number.eq(Mux(moved >= spec.numbers, moved - spec.numbers, moved)),
                within.eq(within + 1),
            ]
        with m.If(used):
            m.d.sync += [number.eq(settings.first), within.eq(0)]
        field = spec.streams()["offsets"].fields[0]
        plus, minus = (mux_tree(number, elements(getattr(word, side), field)) for side in ("plus", "minus"))
        probe(self, word_used=used)
        return plus, minus

    def _write(
        self,
        m: Module,
        dequant: TileDequant,
        replay: TileReplay,
        values: "Values",
        coded: Signal,
        written: Signal,
        index: Signal,
    ) -> None:
        """Write to the tile memory: weights to a word's lanes, values to four lanes, or a correction to a lane."""
        spec = self.spec
        lane_bits, groups = exact_log2(spec.width), spec.width // BEAT_VALUES
        group_bits = exact_log2(groups)
        weights = elements(dequant.o.payload.weight, spec.dequant.streams()["o"].fields[0])
        values_read = elements(dequant.v.payload.value, spec.dequant.streams()["v"].fields[0])
        newest = [
            elements(getattr(self.v.payload, side), spec.streams()["v"].fields[0])[-1] for side in ("plus", "minus")
        ]
        m.d.comb += replay.beat.eq(Mux(values.corrects, values.into[lane_bits:], index[group_bits:]))
        for lane in range(spec.width):
            of_codes = index[exact_log2(len(weights) // BEAT_VALUES) : group_bits] == lane // len(weights)
            of_values = index[:group_bits] == lane // BEAT_VALUES
            m.d.comb += replay.enable[lane].eq(
                (written & Mux(coded, of_codes, of_values)) | (values.corrects & (values.into[:lane_bits] == lane))
            )
            for side, corrected in zip((replay.plus, replay.minus), newest, strict=True):
                value = Mux(values.corrects, corrected[: WEIGHT.width], values_read[lane % BEAT_VALUES][: WEIGHT.width])
                m.d.comb += side[lane].eq(Mux(coded & ~values.corrects, weights[lane % len(weights)], value))


class TensorRegisters(NamedTuple):
    """Registers of the current tensor.

    Parameters
    ----------
    matrix, coded : Signal
        The tensor is a matrix; it is in NF4 codes.
    wide : Signal
        Values have 24 bits, not 18.
    tuned, numbered, row : Signal
        The tensor has offset words for tiles; for corrections or values; for a table row.
    first, number, within : Signal
        Index of the offset for an offset word's first value, and for the next value; values so far with this word.
    remaining, corrected, single : Signal
        Number of corrections left; flags: at least one, exactly one.
    """

    matrix: Signal
    coded: Signal
    wide: Signal
    tuned: Signal
    numbered: Signal
    row: Signal
    first: Signal
    number: Signal
    within: Signal
    remaining: Signal
    corrected: Signal
    single: Signal

    @classmethod
    def of(cls, spec: TileWeightsSpec) -> "TensorRegisters":
        """Registers of the widths in `spec`."""
        fields = {field.name: field for field in spec.streams()["operation"].fields}
        number = fields["first"].width
        widths = {"first": number, "number": number, "remaining": fields["corrections"].width}
        widths["within"] = exact_log2(spec.weights)
        return cls(*(Signal(widths.get(name, 1), name=name, reset_less=True) for name in cls._fields))


class Held(NamedTuple):
    """The next correction.

    Parameters
    ----------
    correction : data.View
        Position, value and read error.
    present, reached : Signal
        The correction is valid; its tile is not after the current tile, or the current tile is the last of the tensor.
    used : Signal
        To be driven: the correction is consumed.
    """

    correction: Any
    present: Signal
    reached: Signal
    used: Signal


class Values(NamedTuple):
    """State of the value pipeline.

    Parameters
    ----------
    enough : Signal
        Offsets for the next value are valid, or not needed.
    ends : Value
        The next value of a vector, if valid, is consumed and is the last of its beat.
    busy : Value
        The pipeline is not empty.
    checks, place, error : Value
        A correction entered in the previous cycle; its position and read error.
    corrects, into : Value
        The result is a correction in the right order; its position in the tile.
    """

    enough: Signal
    ends: Value
    busy: Value
    checks: Value
    place: Value
    error: Value
    corrects: Value
    into: Value
