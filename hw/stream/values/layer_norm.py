"""RTL of `layer_norm`: rows wait while their sums become mean and inverse deviation, then two products a value."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.functions import INVERSE
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.layer_norm import FACTOR_BITS, ROWS_UNDER_WAY, VALUES, WORDS_UNDER_WAY, LayerNormSpec
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
"""Bits of factors and biases."""


class LayerNorm(wiring.Component):
    """Operation after operation: its parameters, then its rows, a word a cycle.

    An operation begins when the last word of the one before was taken. Its rows come in beside its parameters.
    """

    def __init__(self, spec: LayerNormSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        self._active, self._loaded = Signal(), Signal()
        self._settings = settings = Signal.like(self.operation.payload, reset_less=True)
        # of the last feature
        self._lane, self._word = Signal(exact_log2(spec.lanes)), Signal(range(1 << (spec.words - 1).bit_length()))
        last = Signal(len(self._lane) + len(self._word), reset_less=True)
        begin = Signal()
        m.d.comb += [
            begin.eq(self.operation.valid & ~self._active),
            self.operation.ready.eq(~self._active),
            Cat(self._lane, self._word).eq(last),
        ]
        with m.If(begin):
            m.d.sync += [settings.eq(self.operation.payload), last.eq(self.operation.payload.features - 1)]
            m.d.sync += self._active.eq(1)
        ports = self._parameters(m, platform, begin)
        rows, statistics, leaves = self._rows(m, begin)
        finish = self._values(m, rows, statistics, leaves, ports)
        with m.If(finish):
            m.d.sync += self._active.eq(0)
        return m

    def _parameters(self, m: Module, platform: object, begin: Signal) -> list[list[Any]]:
        """Load parameters; return the ports that read factors and biases, one of each for `VALUES` lanes."""
        spec, given = self.spec, self.parameters
        groups = spec.lanes // VALUES
        loading, factors = Signal(), Signal(reset_less=True)
        # for the handshake, which is long, and for the memories: a word goes with its minus side, which comes second
        second, side = replicas(2, "side")
        at = Signal(len(self._word) + exact_log2(groups), reset_less=True)
        final = Signal()
        m.d.comb += [
            given.ready.eq(second),
            final.eq(at == Cat(self._lane, self._word)[exact_log2(VALUES) :]),
        ]
        with m.If(loading & given.valid):
            m.d.sync += [second.eq(~side), side.eq(~side)]
            with m.If(side):
                m.d.sync += at.eq(Mux(final, 0, at + 1))
                with m.If(final):
                    m.d.sync += [factors.eq(1), loading.eq(~factors), self._loaded.eq(factors)]
        with m.If(begin):
            m.d.sync += [loading.eq(1), self._loaded.eq(0), factors.eq(~self.operation.payload.biased), at.eq(0)]
        plus, minus = (
            elements(getattr(given.payload, name), spec.streams()["parameters"].fields[0]) for name in ("plus", "minus")
        )
        values = [Mux(side, low, high) for low, high in zip(minus, plus, strict=True)]
        _, *shapes, _ = spec.memories
        ports: list[list[Any]] = []
        for number, (shape, bits) in enumerate(zip(shapes, _BITS, strict=True)):
            ports.append([])
            for group in range(groups):
                storage = ram(platform, shape)
                m.submodules[f"{shape.name}{group}"] = storage
                write = storage.write_port()
                m.d.comb += [
                    write.addr.eq(Cat(at[exact_log2(groups) :], side)),
                    write.data.eq(Cat(value[:bits] for value in values)),
                    write.en.eq(loading & given.valid & (factors != number) & (at[: exact_log2(groups)] == group)),
                ]
                ports[-1].append(storage.read_port())
        probe(self, loading=loading, second=second, side=side)
        return ports

    def _rows(self, m: Module, begin: Signal) -> tuple[Any, Any, Signal]:
        """Take rows; return the queues of their words and of what becomes of their sums, and a bit: a row leaves."""
        spec, given, settings = self.spec, self.i, self._settings
        m.submodules.rows = rows = Fifo(spec.lanes * Q11_16.width, spec.buffered)
        m.submodules.sums = sums = RowSums(spec.lanes)
        m.submodules.deviation = deviation = RowDeviation(spec.table)
        at, left, taking = Signal.like(self._word), Signal(16, reset_less=True), Signal()
        # a flag: whether a row's first word is taken is known late
        first, last, move, leaves = Signal(init=1), Signal(), Signal(), Signal()
        room = Signal(range(ROWS_UNDER_WAY + 1), init=ROWS_UNDER_WAY)
        m.d.comb += [
            last.eq(at == self._word),
            given.ready.eq(taking & rows.i.ready & (~first | room.any())),
            rows.i.valid.eq(taking & given.valid & (~first | room.any())),
            move.eq(given.valid & given.ready),
            rows.i.payload.eq(Cat(given.payload.value)),
        ]
        with m.If(move):
            m.d.sync += [at.eq(Mux(last, 0, at + 1)), first.eq(last)]
        with m.If(move & last):
            m.d.sync += [left.eq(left - 1), taking.eq(left != 1)]
        with m.If(begin):
            m.d.sync += [left.eq(self.operation.payload.rows), taking.eq(1)]
        m.d.sync += room.eq(room - (move & first) + leaves)
        values = elements(given.payload.value, spec.streams()["i"].fields[0])
        m.d.comb += [
            sums.enable.eq(move),
            sums.first.eq(first),
            sums.last.eq(last),
            *(
                sums.value[lane].eq(Mux(last & (self._lane < lane) if lane else 0, 0, value))
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
        m.submodules.names = names = Fifo(1 + spec.tag, ROWS_UNDER_WAY)
        m.d.comb += [
            statistics.i.valid.eq(deviation.valid),
            *(statistics.i.payload[name].eq(getattr(deviation, name)) for name in layout.members),
            names.i.valid.eq(move & first),
            names.i.payload.eq(Cat(given.payload.side, *([given.payload.tag] if spec.tag else []))),
            statistics.o.ready.eq(leaves),
            names.o.ready.eq(leaves),
        ]
        self._names = names.o
        probe(self, taking=taking, first=first, taken=at, rows_left=left, rows_room=room)
        return rows.o, statistics.o, leaves

    def _values(self, m: Module, rows: Any, statistics: Any, leaves: Signal, ports: list[list[Any]]) -> Value:
        """Compute a word of a row a cycle; return a bit: the operation's last word was taken."""
        o = self.o
        step, last, at = Signal(), Signal(), Signal.like(self._word)
        left, room = Signal(16, reset_less=True), Signal(range(WORDS_UNDER_WAY + 1), init=WORDS_UNDER_WAY)
        m.d.comb += [
            step.eq(self._loaded & rows.valid & statistics.valid & self._names.valid & room.any()),
            rows.ready.eq(step),
            last.eq(at == self._word),
            leaves.eq(step & last),
        ]
        with m.If(step):
            m.d.sync += at.eq(Mux(last, 0, at + 1))
        with m.If(leaves):
            m.d.sync += left.eq(left - 1)
        with m.If(~self._active):
            m.d.sync += left.eq(self.operation.payload.rows)
        m.d.sync += room.eq(room - step + (o.valid & o.ready))

        m.submodules.results = results = Fifo(o.payload.shape(), WORDS_UNDER_WAY)
        wiring.connect(m, results.o, wiring.flipped(o))
        word = _Word(step, last, Cat(at, self._names.payload[0]), rows.payload, statistics.payload)
        m.d.comb += results.i.valid.eq(self._lanes(m, word, ports, results.i.payload))
        probe(self, step=step, given=at, values_left=left, values_room=room)
        return self._active & (left == 0) & (room == WORDS_UNDER_WAY)

    def _lanes(self, m: Module, word: "_Word", ports: list[list[Any]], found: Any) -> Value:
        """Drive the results of a word's lanes; return a bit: there are some."""
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
            Cat(found.side, *([found.tag] if spec.tag else [])).eq(place("names", self._names.payload).at("result")),
            found.last.eq(ends.at("result")),
        ]
        lanes = [NormLane() for _ in range(spec.lanes)]
        drop, lift = Signal.like(lanes[0].drop, reset_less=True), Signal.like(lanes[0].lift, reset_less=True)
        m.d.sync += [drop.eq(settings.fraction + settings.result_shift + 1), lift.eq(settings.fraction + 1)]
        # with a reset, the register is none of a shift register, whose output is late, and which all lanes read
        own_places = Signal.like(word.statistics.places)
        m.d.sync += own_places.eq(place("places", word.statistics.places).at("product"))
        row = {
            "mantissa": place("mantissa", word.statistics.mantissa).at("operand"),
            "offset": place("offset", word.statistics.offset).at("product"),
            "places": own_places,
        }
        for number, lane in enumerate(lanes):
            m.submodules[f"lane{number}"] = lane
            there = ~ends.at("address") | (self._lane >= number if number else 1)
            parameters = [
                port[number // VALUES].data.word_select(number % VALUES, bits)
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
                found.value[number].eq(lane.o),
                found.clipped_scaled[number].eq(lane.clipped_scaled),
                found.clipped[number].eq(lane.clipped),
            ]
        probe(self, under_way=under_way)
        return pipeline.place_flag("word", word.step, under_way).at("result")


class _Word(NamedTuple):
    """A word of a row as it leaves the buffer.

    Parameters
    ----------
    step : Value
        There is one.
    last : Value
        It ends its row.
    address : Value
        Of its parameters, of its side.
    values : Value
        All lanes.
    statistics : data.View
        Mantissa, offset, places of its row.
    """

    step: Value
    last: Value
    address: Value
    values: Value
    statistics: Any
