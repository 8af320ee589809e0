"""RTL of `tile_weights`: dequantised tiles with corrections, given twice with offsets; vectors with theirs."""

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
    """Tensor after tensor: matrices leave by `w`, a beat a cycle, everything else by `v`, a value a cycle.

    A tensor begins when the one before is in the memory of tiles, or its last values were taken.
    """

    def __init__(self, spec: TileWeightsSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Fill tiles, correct them, hand them over; longer than most, as all is about one tensor's state."""
        m = Module()
        spec = self.spec
        m.submodules.dequant = dequant = TileDequant(spec.dequant)
        m.submodules.replay = replay = TileReplay(spec)
        wiring.connect(m, wiring.flipped(self.beats), dequant.beats)
        wiring.connect(m, replay.w, wiring.flipped(self.w))
        settings = Settings.of(spec)
        active, correcting = Signal(), Signal()
        begins, tiled = self._operation(m, dequant, active, settings)

        due, good, fresh, wrong = Signal(), Signal(), Signal(init=1), Signal()
        tile, final, is_final = Signal.like(replay.tile), Signal(reset_less=True), Signal()
        held = self._held(m, tile, is_final)
        values = self._values(m, dequant, replay, settings, held.correction, due, good)

        # a tile's weights: two lanes or a beat of codes a word, or four values
        at = Signal(range(spec.weights // BEAT_VALUES))
        filling, written, complete, finish = Signal(), Signal(), Signal(), Signal()
        coded_groups = spec.dequant.width // BEAT_VALUES
        m.d.comb += [
            dequant.o.ready.eq(filling),
            # values of a matrix are written at once, those of a vector leave one by one
            dequant.v.ready.eq(Mux(settings.matrix, filling, values.ends)),
            written.eq(filling & (dequant.o.valid | dequant.v.valid)),
            complete.eq(written & Mux(settings.coded, at[exact_log2(coded_groups) :].all(), at.all())),
        ]
        # a register, as what it enables is known late
        fills = settings.matrix & active & Mux(correcting, finish & ~final, ~complete)
        m.d.sync += filling.eq(Mux(begins, tiled, fills) & replay.free)
        with m.If(written):
            m.d.sync += at.eq(at + Mux(settings.coded, coded_groups, 1))
        given, failed = (dequant.o.payload, dequant.v.payload), Signal(reset_less=True)
        m.d.comb += is_final.eq(Mux(complete, Mux(settings.coded, *(one.last for one in given)), final))
        m.d.sync += final.eq(is_final)
        # the tile is corrected, if its tensor has corrections that are left
        corrects = Signal()
        with m.If(complete):
            m.d.sync += [
                correcting.eq(1),
                corrects.eq(settings.corrected),
                failed.eq(Mux(settings.coded, *(one.error for one in given))),
            ]

        # corrections of the tile; those beyond the tensor's end are of its last tile. Whether one is good is found
        # a cycle behind, as the tile has not ended then
        low = exact_log2(spec.weights)
        top = Signal(low, reset_less=True)
        m.d.comb += [
            due.eq(corrects & held.there & held.reached),
            good.eq((values.place[low:] == tile) & (fresh | (values.place[:low] > top))),
        ]
        self._write(m, dequant, replay, values, settings.coded, written, at)
        m.d.comb += [
            held.used.eq(due & values.enough),
            finish.eq(correcting & ~values.busy & (~corrects | (held.there & ~held.reached))),
        ]
        with m.If(held.used):
            m.d.sync += [
                settings.left.eq(settings.left - 1),
                settings.single.eq(settings.left == 2),
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
        probe(self, at=at, filling=filling, correcting=correcting, corrects=corrects, wrong=wrong)
        return m

    def _operation(
        self, m: Module, dequant: TileDequant, active: Signal, settings: "Settings"
    ) -> tuple[Signal, Signal]:
        """Take the next tensor when there is none; whether it is taken, and is a matrix."""
        given, begins = self.operation.payload, Signal()
        matrix, coded = Signal(), Signal()
        passed = dequant.operation
        m.d.comb += [
            passed.valid.eq(self.operation.valid & ~active),
            self.operation.ready.eq(passed.ready & ~active),
            begins.eq(passed.valid & passed.ready),
            coded.eq(given.kind == TensorKind.NF4),
            matrix.eq(given.kind.matches(*MATRICES)),
            *(getattr(passed.payload, name).eq(getattr(given, name)) for name in Beats._fields),
        ]
        rows, tiles = given.offsets == OffsetKind.ROW, given.offsets == OffsetKind.TILES
        first = Mux(~matrix & rows, given.first, 0)
        with m.If(begins):
            m.d.sync += [
                settings.matrix.eq(matrix),
                settings.coded.eq(coded),
                settings.wide.eq(given.kind == TensorKind.VALUES),
                settings.tuned.eq(matrix & tiles),
                settings.numbered.eq(Mux(matrix, given.offsets == OffsetKind.CORRECTIONS, tiles | rows)),
                settings.row.eq(~matrix & rows),
                settings.first.eq(first),
                settings.number.eq(first),
                settings.within.eq(0),
                settings.left.eq(given.corrections),
                settings.corrected.eq(given.corrections != 0),
                settings.single.eq(given.corrections == 1),
            ]
        return begins, matrix

    def _held(self, m: Module, tile: Signal, is_final: Signal) -> "Held":
        """Hold the next correction, beside the result of a comparison that would be late where it is used."""
        given, low = self.corrections, exact_log2(self.spec.weights)
        correction = Signal(given.payload.shape(), reset_less=True)
        there, used, loads, reached = Signal(), Signal(), Signal(), Signal(reset_less=True)
        m.d.comb += [loads.eq(~there | used), given.ready.eq(loads)]
        # with the tile of the cycle before: it changes long before the next corrections are used. Of two comparisons
        # that are written alike, synthesis would make one behind a multiplexer
        mine, next_one = correction.place[low:] <= tile, tile >= given.payload.place[low:]
        m.d.sync += [there.eq(given.valid | ~loads), reached.eq(is_final | Mux(loads, next_one, mine))]
        with m.If(loads):
            m.d.sync += correction.eq(given.payload)
        probe(self, correction=correction, there=there, reached=reached, correction_used=used)
        return Held(correction, there, reached, used)

    def _values(
        self,
        m: Module,
        dequant: TileDequant,
        replay: TileReplay,
        settings: "Settings",
        correction: Any,
        due: Signal,
        good: Signal,
    ) -> "Values":
        """Add offsets to a value a cycle, for both sides: to a correction that is due, or to one of a vector.

        Longer than most, as it is a single pipeline for both.
        """
        spec, v, given = self.spec, self.v, dequant.v.payload
        enough, taken, end, final = Signal(), Signal(), Signal(), Signal()
        # a word is on offer: for handshakes, and for the many registers of values
        offered, keeps = replicas(2, "offered")
        move, loads = ~offered | v.ready, ~keeps | v.ready
        # a flag of the last lane, which all of the beat's stages wait for
        lane, last_lane = Signal(range(BEAT_VALUES)), Signal()
        m.d.comb += [
            v.valid.eq(offered),
            enough.eq(~settings.numbered | self.offsets.valid & ~replay.waits),
            # no correction waits for `v`: the vector before has left
            taken.eq(Mux(settings.matrix, due, dequant.v.valid & move) & enough),
            end.eq(~settings.matrix & last_lane),
            final.eq(Mux(settings.matrix, settings.single, given.last & end)),
        ]
        with m.If(taken & ~settings.matrix):
            m.d.sync += [lane.eq(lane + 1), last_lane.eq(lane == BEAT_VALUES - 2)]
        numbers = self._numbers(m, settings, taken, final, replay)

        pipeline = Pipeline(m, {"taken": 0, "operands": 1, "sum": 1, "result": 1}, enable=loads)
        under_way = Signal(3)
        valid = pipeline.place_flag("taken", taken, under_way)
        value = Signal(signed(Q8_16.width), reset_less=True)
        of_vector = mux_tree(lane, elements(given.value, spec.dequant.streams()["v"].fields[0])).as_signed()
        pipeline.load(value, Mux(settings.matrix, correction.value, of_vector))
        ends = pipeline.place("taken", end, "end", reset_less=True).at("sum")
        flags = pipeline.place("taken", Cat(given.last, given.error), "flags", reset_less=True).at("sum")
        for side, number in zip(("plus", "minus"), numbers, strict=True):
            offset = Signal(signed(OFFSET.width), name=f"{side}_offset", reset_less=True)
            exact = Signal(signed(Q8_16.width + 1), name=f"{side}_sum", reset_less=True)
            pipeline.load(offset, Mux(settings.numbered, number, 0))
            pipeline.load(exact, value + offset)
            result = Signal(signed(Q8_16.width), name=f"{side}_result")
            m.d.comb += result.eq(Mux(settings.wide, saturate(exact, Q8_16.width), saturate(exact, WEIGHT.width)))
            kept = Signal(BEAT_VALUES * Q8_16.width, name=f"{side}_values", reset_less=True)
            with m.If(loads & valid.at("sum")):
                m.d.sync += kept.eq(Cat(kept[Q8_16.width :], result))
            m.d.comb += Value.cast(getattr(v.payload, side)).eq(kept)
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
        self, m: Module, settings: "Settings", taken: Signal, final: Signal, replay: TileReplay
    ) -> tuple[Value, Value]:
        """Give the offsets of the next value, of both sides; a word ends after its values, or the tensor's."""
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
        at: Signal,
    ) -> None:
        """Write all lanes with weights, four with values, or one with a correction."""
        spec = self.spec
        place, groups = exact_log2(spec.width), spec.width // BEAT_VALUES
        own = exact_log2(groups)
        weights = elements(dequant.o.payload.weight, spec.dequant.streams()["o"].fields[0])
        given = elements(dequant.v.payload.value, spec.dequant.streams()["v"].fields[0])
        newest = [
            elements(getattr(self.v.payload, side), spec.streams()["v"].fields[0])[-1] for side in ("plus", "minus")
        ]
        m.d.comb += replay.beat.eq(Mux(values.corrects, values.into[place:], at[own:]))
        for lane in range(spec.width):
            of_codes = at[exact_log2(len(weights) // BEAT_VALUES) : own] == lane // len(weights)
            of_values = at[:own] == lane // BEAT_VALUES
            m.d.comb += replay.enable[lane].eq(
                (written & Mux(coded, of_codes, of_values)) | (values.corrects & (values.into[:place] == lane))
            )
            for side, one in zip((replay.plus, replay.minus), newest, strict=True):
                value = Mux(values.corrects, one[: WEIGHT.width], given[lane % BEAT_VALUES][: WEIGHT.width])
                m.d.comb += side[lane].eq(Mux(coded & ~values.corrects, weights[lane % len(weights)], value))


class Settings(NamedTuple):
    """Registers of the tensor.

    Parameters
    ----------
    matrix, coded : Signal
        Tiles; of codes.
    wide : Signal
        Values have 24 bits, not 18.
    tuned, numbered, row : Signal
        A word of offsets for each tile; words for corrections or values; words of a row.
    first, number, within : Signal
        Number that a word's first value takes, and the next one; values of a word so far.
    left, corrected, single : Signal
        Corrections that are left; whether there are any, or one.
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
    left: Signal
    corrected: Signal
    single: Signal

    @classmethod
    def of(cls, spec: TileWeightsSpec) -> "Settings":
        """Make them."""
        fields = {one.name: one for one in spec.streams()["operation"].fields}
        number = fields["first"].width
        widths = {"first": number, "number": number, "left": fields["corrections"].width}
        widths["within"] = exact_log2(spec.weights)
        return cls(*(Signal(widths.get(name, 1), name=name, reset_less=True) for name in cls._fields))


class Held(NamedTuple):
    """The correction that is next.

    Parameters
    ----------
    correction : data.View
        Its place, its value, and whether it was not read.
    there, reached : Signal
        There is one; its tile is the one that is filled, or before it, or the latter is the last one.
    used : Signal
        It is taken, an input.
    """

    correction: Any
    there: Signal
    reached: Signal
    used: Signal


class Values(NamedTuple):
    """State of the pipeline of single values.

    Parameters
    ----------
    enough : Signal
        The offsets are there that the next value takes.
    ends : Value
        A vector's value is taken where there is one, and is the last one of a word.
    busy : Value
        Values are in it.
    checks, place, error : Value
        A correction was taken in the cycle before, of that place, which was not read.
    corrects, into : Value
        The result is a correction that is good, of that place in its tile.
    """

    enough: Signal
    ends: Value
    busy: Value
    checks: Value
    place: Value
    error: Value
    corrects: Value
    into: Value
