"""RTL of `layer_norm`: a buffer holds rows until their statistics are known; then a value takes two products."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.functions import INVERSE
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.layer_norm import (
    FACTOR_BITS,
    PARAMETERS_A_BEAT,
    ROWS_UNDER_WAY,
    WORDS_UNDER_WAY,
    LayerNormSpec,
)
from ...ports import elements, members
from ...primitives.fifo import Fifo
from ...primitives.pipeline import Pipeline, Placed
from ...primitives.ram import ram
from ...primitives.registers import replicas
from ...probe import probe
from .norm_lane import NormLane
from .row_deviation import RowDeviation
from .row_sums import RowSums

_BITS = FACTOR_BITS, Q8_16.width
"""Widths of factors and of biases."""


class LayerNorm(wiring.Component):
    """Normalise rows, a word a cycle; operations run in sequence.

    An operation begins once the previous operation's last word was accepted. Rows and parameters arrive in parallel.
    """

    def __init__(self, spec: LayerNormSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        self._active, self._loaded = Signal(), Signal()
        self._settings = settings = Signal.like(self.operation.payload, reset_less=True)
        self._lane, self._word = Signal(exact_log2(spec.lanes)), Signal(range(1 << (spec.words - 1).bit_length()))
        last_index = Signal(len(self._lane) + len(self._word), reset_less=True)
        begin = Signal()
        m.d.comb += [
            begin.eq(self.operation.valid & ~self._active),
            self.operation.ready.eq(~self._active),
            Cat(self._lane, self._word).eq(last_index),
        ]
        with m.If(begin):
            m.d.sync += [settings.eq(self.operation.payload), last_index.eq(self.operation.payload.features - 1)]
            m.d.sync += self._active.eq(1)
        ports = self._parameters(m, platform, begin)
        rows, statistics, row_leaves = self._rows(m, begin)
        finish = self._values(m, rows, statistics, row_leaves, ports)
        with m.If(finish):
            m.d.sync += self._active.eq(0)
        return m

    def _parameters(self, m: Module, platform: object, begin: Signal) -> list[list[Any]]:
        """Load biases, if any, then factors.

        Returns the read ports of factors and of biases, each for `PARAMETERS_A_BEAT` lanes.
        """
        spec, parameters = self.spec, self.parameters
        groups = spec.lanes // PARAMETERS_A_BEAT
        loading, loading_factors = Signal(), Signal(reset_less=True)
        # a word takes two cycles, plus then minus, and is accepted in the second. Two copies of this bit: for `ready`
        # and for the memories
        minus_for_ready, minus_for_memory = replicas(2, "side")
        index = Signal(len(self._word) + exact_log2(groups), reset_less=True)
        vector_ends = Signal()
        m.d.comb += [
            parameters.ready.eq(minus_for_ready),
            vector_ends.eq(index == Cat(self._lane, self._word)[exact_log2(PARAMETERS_A_BEAT) :]),
        ]
        with m.If(loading & parameters.valid):
            m.d.sync += [minus_for_ready.eq(~minus_for_memory), minus_for_memory.eq(~minus_for_memory)]
            with m.If(minus_for_memory):
                m.d.sync += index.eq(Mux(vector_ends, 0, index + 1))
                with m.If(vector_ends):
                    m.d.sync += [loading_factors.eq(1), loading.eq(~loading_factors), self._loaded.eq(loading_factors)]
        with m.If(begin):
            m.d.sync += [
                loading.eq(1),
                self._loaded.eq(0),
                loading_factors.eq(~self.operation.payload.biased),
                index.eq(0),
            ]
        plus, minus = (
            elements(getattr(parameters.payload, name), spec.streams()["parameters"].fields[0])
            for name in ("plus", "minus")
        )
        values = [Mux(minus_for_memory, low, high) for low, high in zip(minus, plus, strict=True)]
        _, *shapes, _ = spec.memories
        ports: list[list[Any]] = []
        for kind, (shape, bits) in enumerate(zip(shapes, _BITS, strict=True)):
            ports.append([])
            for group in range(groups):
                storage = ram(platform, shape)
                m.submodules[f"{shape.name}{group}"] = storage
                write = storage.write_port()
                m.d.comb += [
                    write.addr.eq(Cat(index[exact_log2(groups) :], minus_for_memory)),
                    write.data.eq(Cat(value[:bits] for value in values)),
                    write.en.eq(
                        loading & parameters.valid & (loading_factors != kind) & (index[: exact_log2(groups)] == group)
                    ),
                ]
                ports[-1].append(storage.read_port())
        probe(self, loading=loading, second=minus_for_ready, side=minus_for_memory)
        return ports

    def _rows(self, m: Module, begin: Signal) -> tuple[Any, Any, Signal]:
        """Accept rows; returns queues of words and of row statistics, and a flag to be driven: a row leaves."""
        spec, source, settings = self.spec, self.i, self._settings
        m.submodules.rows = rows = Fifo(spec.lanes * Q11_16.width, spec.buffered)
        m.submodules.sums = sums = RowSums(spec.lanes)
        m.submodules.deviation = deviation = RowDeviation(spec.table)
        index, remaining, taking = Signal.like(self._word), Signal(16, reset_less=True), Signal()
        # timing: a row's acceptance settles late in the cycle, so `first` is a register
        first, row_ends, move, row_leaves = Signal(init=1), Signal(), Signal(), Signal()
        room = Signal(range(ROWS_UNDER_WAY + 1), init=ROWS_UNDER_WAY)
        m.d.comb += [
            row_ends.eq(index == self._word),
            source.ready.eq(taking & rows.i.ready & (~first | room.any())),
            rows.i.valid.eq(taking & source.valid & (~first | room.any())),
            move.eq(source.valid & source.ready),
            rows.i.payload.eq(Cat(source.payload.value)),
        ]
        with m.If(move):
            m.d.sync += [index.eq(Mux(row_ends, 0, index + 1)), first.eq(row_ends)]
        with m.If(move & row_ends):
            m.d.sync += [remaining.eq(remaining - 1), taking.eq(remaining != 1)]
        with m.If(begin):
            m.d.sync += [remaining.eq(self.operation.payload.rows), taking.eq(1)]
        m.d.sync += room.eq(room - (move & first) + row_leaves)
        values = elements(source.payload.value, spec.streams()["i"].fields[0])
        m.d.comb += [
            sums.enable.eq(move),
            sums.first.eq(first),
            sums.last.eq(row_ends),
            *(
                sums.value[lane].eq(Mux(row_ends & (self._lane < lane) if lane else 0, 0, value))
                for lane, value in enumerate(values)
            ),
            deviation.enable.eq(sums.valid),
            deviation.sum.eq(sums.sum),
            deviation.squares.eq(sums.squares),
            deviation.features.eq(settings.features),
            deviation.centred.eq(settings.centred),
            deviation.share.eq(settings.factor),
            deviation.share_fraction.eq(settings.factor_fraction),
            deviation.least.eq(settings.least),
        ]
        layout = data.StructLayout({"mantissa": INVERSE.width, "offset": signed(len(deviation.offset)), "places": 6})
        m.submodules.statistics = statistics = Fifo(layout, ROWS_UNDER_WAY)
        m.submodules.names = sides_and_tags = Fifo(1 + spec.tag, ROWS_UNDER_WAY)
        m.d.comb += [
            statistics.i.valid.eq(deviation.valid),
            *(statistics.i.payload[name].eq(getattr(deviation, name)) for name in layout.members),
            sides_and_tags.i.valid.eq(move & first),
            sides_and_tags.i.payload.eq(Cat(source.payload.side, *([source.payload.tag] if spec.tag else []))),
            statistics.o.ready.eq(row_leaves),
            sides_and_tags.o.ready.eq(row_leaves),
        ]
        self._side_and_tag = sides_and_tags.o
        probe(self, taking=taking, first=first, taken=index, rows_left=remaining, rows_room=room)
        return rows.o, statistics.o, row_leaves

    def _values(self, m: Module, rows: Any, statistics: Any, row_leaves: Signal, ports: list[list[Any]]) -> Value:
        """Process a row word a cycle; returns a flag: the operation's last word was accepted."""
        o = self.o
        step, row_ends, index = Signal(), Signal(), Signal.like(self._word)
        remaining, room = Signal(16, reset_less=True), Signal(range(WORDS_UNDER_WAY + 1), init=WORDS_UNDER_WAY)
        m.d.comb += [
            step.eq(self._loaded & rows.valid & statistics.valid & self._side_and_tag.valid & room.any()),
            rows.ready.eq(step),
            row_ends.eq(index == self._word),
            row_leaves.eq(step & row_ends),
        ]
        with m.If(step):
            m.d.sync += index.eq(Mux(row_ends, 0, index + 1))
        with m.If(row_leaves):
            m.d.sync += remaining.eq(remaining - 1)
        with m.If(~self._active):
            m.d.sync += remaining.eq(self.operation.payload.rows)
        m.d.sync += room.eq(room - step + (o.valid & o.ready))

        m.submodules.results = results = Fifo(o.payload.shape(), WORDS_UNDER_WAY)
        wiring.connect(m, results.o, wiring.flipped(o))
        word = _Word(step, row_ends, Cat(index, self._side_and_tag.payload[0]), rows.payload, statistics.payload)
        m.d.comb += results.i.valid.eq(self._lanes(m, word, ports, results.i.payload))
        probe(self, step=step, given=index, values_left=remaining, values_room=room)
        return self._active & (remaining == 0) & (room == WORDS_UNDER_WAY)

    def _lanes(self, m: Module, word: "_Word", ports: list[list[Any]], results: Any) -> Value:
        """Connect a word's lanes and drive the results; returns the valid flag."""
        spec, settings = self.spec, self._settings
        stages = {
            "word": 0,
            "operand": 1,
            "product": 1,
            "difference": 1,
            "address": NormLane.FETCHED - 4,
            "fetched": 1,
            "result": NormLane.LATENCY - NormLane.FETCHED,
        }
        pipeline = Pipeline(m, stages)

        def place(name: str, value: Value) -> Placed:
            return pipeline.place("word", value, name, reset_less=True)

        address, ends = place("address", word.address).at("address"), place("last", word.last)
        for port in (*ports[0], *ports[1]):
            m.d.comb += port.addr.eq(address)
        under_way = Signal(NormLane.LATENCY)
        m.d.comb += [
            Cat(results.side, *([results.tag] if spec.tag else [])).eq(
                place("names", self._side_and_tag.payload).at("result")
            ),
            results.last.eq(ends.at("result")),
        ]
        lanes = [NormLane() for _ in range(spec.lanes)]
        drop, lift = Signal.like(lanes[0].drop, reset_less=True), Signal.like(lanes[0].lift, reset_less=True)
        m.d.sync += [drop.eq(settings.fraction + settings.result_shift + 1), lift.eq(settings.fraction + 1)]
        # timing: high fanout; a reset keeps this register out of the shift-register primitive, which has a slow output
        row_places = Signal.like(word.statistics.places)
        m.d.sync += row_places.eq(place("places", word.statistics.places).at("product"))
        row = {
            "mantissa": place("mantissa", word.statistics.mantissa).at("operand"),
            "offset": place("offset", word.statistics.offset).at("product"),
            "places": row_places,
        }
        for number, lane in enumerate(lanes):
            m.submodules[f"lane{number}"] = lane
            there = ~ends.at("address") | (self._lane >= number if number else 1)
            parameters = [
                port[number // PARAMETERS_A_BEAT].data.word_select(number % PARAMETERS_A_BEAT, bits)
                for port, bits in zip(ports, _BITS, strict=True)
            ]
            m.d.comb += [
                lane.value.eq(word.values.word_select(number, Q11_16.width)),
                *(getattr(lane, name).eq(value) for name, value in row.items()),
                lane.factor.eq(parameters[0]),
                lane.bias.eq(parameters[1]),
                lane.there.eq(pipeline.place("address", there, f"there{number}", reset_less=True).at("fetched")),
                lane.biased.eq(settings.biased),
                lane.lift.eq(lift),
                lane.drop.eq(drop),
                results.value[number].eq(lane.o),
                results.clipped_scaled[number].eq(lane.clipped_scaled),
                results.clipped[number].eq(lane.clipped),
            ]
        probe(self, under_way=under_way)
        return pipeline.place_flag("word", word.step, under_way).at("result")


class _Word(NamedTuple):
    """A word of a row at the buffer's output.

    Parameters
    ----------
    step : Value
        High if the word is valid.
    last : Value
        High for the last word of its row.
    address : Value
        Address of the word's parameters, with the perturbation sign as the top bit.
    values : Value
        Values of all lanes.
    statistics : data.View
        Mantissa, offset and places of the row.
    """

    step: Value
    last: Value
    address: Value
    values: Value
    statistics: Any
