"""Softmax weights, and the reciprocal of their sum."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q8_16, Format
from ....golden.stream.functions import MANTISSA, POWER
from ....golden.stream.softmax.attention_softmax import AttentionSoftmaxSpec
from ...ports import shape
from ...primitives.adder_tree import adder_tree
from ...primitives.pipeline import Pipeline
from ...primitives.shifter import RoundingShifter
from ...probe import probe
from ..pwl import PiecewiseLinear
from .attention_scores import place_layout

_SIGNED = Format(POWER.integer + 1, POWER.fraction)
_HALVINGS = 31
"""Largest right shift of a power of two; from 22 on the result is 0."""


class AttentionWeights(wiring.Component):
    """Convert a word of exponents a cycle to weights, and invert the sum of each query's weights; no handshake.

    Attributes
    ----------
    valid : In(1)
        The inputs below are valid: a word that is read. Its exponents, `word`, follow one cycle later.
    at : In
        Address of the word.
    seen : In
        For each lane: the key is visible to the query.
    begins, ends : In(1)
        The word is the first, the last of its query.
    last : In(1)
        The query is the last of its block.
    largest : In
        Largest exponent of the query.
    clipped : In
        Number that accompanies the query's reciprocal.
    word : In, array of Q8.16
        Exponents.
    put, put_at, weight : Out
        Weights are valid; their address; the weights, each POWER in 24 bits.
    put_last : Out(2)
        For each bank: the weights are the last of their block.
    done : Out(1)
        `inverse` is valid.
    inverse : Out
        ``mantissa``, ``exponent``, ``last``, ``clipped``.
    """

    def __init__(self, spec: AttentionSoftmaxSpec) -> None:
        self.spec = spec
        address, inverse = place_layout(spec), spec.streams()["inverse"].fields
        counts = shape(inverse[-1].format)
        lanes = data.ArrayLayout(shape(Q8_16), spec.exponentials)
        super().__init__(
            {
                "valid": In(1),
                "at": In(address),
                "seen": In(spec.exponentials),
                "begins": In(1),
                "ends": In(1),
                "last": In(1),
                "largest": In(shape(Q8_16)),
                "clipped": In(counts),
                "word": In(lanes),
                "put": Out(1),
                "put_at": Out(address),
                "put_last": Out(2),
                "weight": Out(lanes),
                "done": Out(1),
                "inverse": Out(data.StructLayout({field.name: shape(field.format) for field in inverse})),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        pipeline = Pipeline(
            m,
            {
                "read": 0,
                "word": 1,
                "operands": 1,
                "distance": 1,
                "power": PiecewiseLinear.LATENCY,
                "weight": RoundingShifter.latency_of(_HALVINGS),
                "masked": 1,
                "sum": (spec.exponentials - 1).bit_length(),
                "total": 1,
                "octave": 1,
                "mantissa": 1,
                "inverse": PiecewiseLinear.LATENCY,
            },
        )
        assert pipeline.latency("read", "weight") == spec.weight_latency
        assert pipeline.latency("read", "inverse") == spec.latency
        valid = pipeline.place("read", self.valid, "valid")
        place = pipeline.place("read", self.at, "place", reset_less=True).at("weight")
        final = self.valid & self.ends & self.last
        final = pipeline.place("read", Cat(final & ~self.at.bank, final & self.at.bank), "final")
        m.d.comb += [
            self.put.eq(valid.at("weight")),
            Value.cast(self.put_at).eq(Value.cast(place)),
            self.put_last.eq(final.at("weight")),
        ]
        weights = self._weights(m, pipeline)
        seen = pipeline.place("read", self.seen, "seen", reset_less=True).at("weight")
        masked = []
        for lane, weight in enumerate(weights):
            m.d.comb += self.weight[lane].eq(weight)
            masked.append(Signal(_SIGNED.width, name=f"masked{lane}", reset_less=True))
            m.d.sync += masked[-1].eq(Mux(seen[lane], weight, 0))
        begins = pipeline.place("read", self.begins, "begins", reset_less=True).at("sum")
        total = Signal(POWER.width + (spec.keys - 1).bit_length(), reset_less=True)
        summed = adder_tree(m, masked, "sum")
        with m.If(valid.at("sum")):
            m.d.sync += total.eq(Mux(begins, 0, total) + summed)
        ending = Signal(spec.latency)
        ends = pipeline.place_flag("read", self.valid & self.ends, ending)
        mantissa, exponent = self._reciprocal(m, pipeline, total)
        clipped = pipeline.place("read", self.clipped, "clipped", reset_less=True).at("inverse")
        m.d.comb += [
            self.done.eq(ends.at("inverse")),
            self.inverse.mantissa.eq(mantissa),
            self.inverse.exponent.eq(exponent),
            self.inverse.last.eq(final.at("inverse").any()),
            self.inverse.clipped.eq(clipped),
        ]
        probe(self, ending=ending)
        return m

    def _weights(self, m: Module, pipeline: Pipeline) -> list[Value]:
        """For each lane 2 to the power of minus the distance from the largest exponent."""
        count, fraction = self.spec.exponentials, Q8_16.fraction
        largest = pipeline.place("read", self.largest, "largest", reset_less=True).at("operands")
        m.submodules.powers = powers = PiecewiseLinear(self.spec.powers, count)
        weights = []
        for lane, exponent in enumerate(self.word):
            operand = Signal(shape(Q8_16), name=f"operand{lane}", reset_less=True)
            distance = Signal(Q8_16.width, name=f"distance{lane}", reset_less=True)
            # the exponent of an invisible key may exceed the largest; its weight is masked later
            m.d.sync += [operand.eq(exponent), distance.eq(largest - operand)]
            most = _HALVINGS.bit_length()
            beyond = distance[fraction + most :].any()
            places = distance[fraction : fraction + most] | beyond.replicate(most)
            halvings = pipeline.place("distance", places, f"halvings{lane}", reset_less=True).at("power")
            m.submodules[f"weight{lane}"] = shifter = RoundingShifter(_SIGNED.width, _HALVINGS, _SIGNED)
            m.d.comb += [
                powers.argument[lane].eq(distance[:fraction]),
                shifter.i.eq(powers.o[lane]),
                shifter.places.eq(halvings),
            ]
            weights.append(shifter.o)
        return weights

    def _reciprocal(self, m: Module, pipeline: Pipeline, total: Value) -> tuple[Value, Value]:
        """Mantissa and exponent of a sum's reciprocal, at "inverse"."""
        # the largest weight is 1, so the sum is at least 1
        above = total[POWER.fraction :]
        octave = Signal(range(len(above)), reset_less=True)
        delayed_total, fraction = Signal(len(total), reset_less=True), Signal(MANTISSA, reset_less=True)
        m.d.sync += [octave.eq(0), delayed_total.eq(total)]
        for bit in range(1, len(above)):
            with m.If(above[bit]):
                m.d.sync += octave.eq(bit)
        m.d.sync += fraction.eq((delayed_total[: len(total) - 1] >> octave)[:MANTISSA])
        m.submodules.reciprocals = reciprocals = PiecewiseLinear(self.spec.reciprocals, 1)
        m.d.comb += reciprocals.argument[0].eq(fraction)
        exponent = pipeline.place("octave", octave, "exponent", reset_less=True).at("inverse")
        return reciprocals.o[0], exponent + POWER.fraction
