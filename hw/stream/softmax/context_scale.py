"""RTL of `context_scale`: reciprocals of two query blocks; shift, product and rounding for each lane."""

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ....golden.fixed import Q8_16, Format
from ....golden.stream.attention import CONTEXT_GUARD, Q6_12
from ....golden.stream.forward import SHIFT
from ....golden.stream.functions import INVERSE
from ....golden.stream.softmax.context_scale import ContextScaleSpec
from ...ports import elements, members
from ...primitives.pipeline import Pipeline
from ...primitives.ram import ram
from ...primitives.registers import replicas
from ...primitives.shifter import RoundingShifter
from ...probe import probe

_MEAN = Format(Q6_12.integer + CONTEXT_GUARD + 1, Q6_12.fraction)
"""Format of a quotient before the mantissa's product: up to twice the largest value, with guard bits."""
_DROPPED = Q6_12.fraction + CONTEXT_GUARD + INVERSE.fraction - Q8_16.fraction
"""Number of bits of a product to round off, if both shifts are equal."""


class ContextScale(wiring.Component):
    """Divide sums by the sum of their query's weights: a word of lanes a cycle; latency `spec.latency` (12) cycles.

    All stages stall while the last stage is full and not accepted. Sums wait until all reciprocals of their block are
    stored. Meanwhile reciprocals of the next block are accepted.
    """

    def __init__(self, spec: ContextScaleSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, word = self.spec, self.i.payload
        halvings, drops = spec.halvings, range(_DROPPED - SHIFT.maximum, _DROPPED + SHIFT.maximum + 1)
        move, accept = Signal(), Signal()
        pipeline = Pipeline(
            m,
            {
                "input": 0,
                "mean": RoundingShifter.latency_of(len(halvings) - 1),
                "product": 1,
                "exact": 1,
                "output": RoundingShifter.latency_of(len(drops) - 1),
            },
            enable=move,
        )
        assert pipeline.latency("input", "output") == spec.latency
        places, inverse, ready = self._table(m, platform, accept)
        mantissa = pipeline.place("input", inverse, "mantissa", reset_less=True).at("mean")
        dropped = word.output_shift - word.value_shift + SHIFT.maximum
        dropped = pipeline.place("input", dropped[: len(drops).bit_length()], "dropped", reset_less=True).at("exact")
        # copies of the last stage's valid flag, so that `i.ready` does not depend on the high-fanout enable
        valid, (offered, last_full) = Signal(spec.latency), replicas(2, "offered")
        m.d.comb += [
            move.eq(~last_full | self.o.ready),
            self.i.ready.eq((~offered | self.o.ready) & ready),
            accept.eq(self.i.valid & self.i.ready),
            self.o.valid.eq(offered),
        ]
        pipeline.place_flag("input", accept, valid)
        for flag in (offered, last_full):
            pipeline.load(flag, valid[-2])
        sums = elements(word.sum, spec.streams()["i"].fields[0])
        results, clipped = (
            elements(getattr(self.o.payload, field.name), field) for field in spec.streams()["o"].fields[:2]
        )
        for lane, value in enumerate(sums):
            mean = RoundingShifter(len(value), halvings[-1], _MEAN, halvings[0])
            m.submodules[f"mean{lane}"] = EnableInserter(move)(mean)
            product = Signal(signed(_MEAN.width + INVERSE.width), name=f"product{lane}", reset_less=True)
            exact = Signal.like(product, name=f"exact{lane}")
            pipeline.load(product, mean.o * mantissa)
            pipeline.load(exact, product)
            narrowed = RoundingShifter(len(exact), drops[-1], Q8_16, drops[0])
            m.submodules[f"context{lane}"] = EnableInserter(move)(narrowed)
            m.d.comb += [
                mean.i.eq(value),
                mean.places.eq(places),
                narrowed.i.eq(exact),
                narrowed.places.eq(dropped),
                results[lane].eq(narrowed.o),
                clipped[lane].eq(narrowed.clipped),
            ]
        if spec.tag:
            tag = pipeline.place("input", word.tag, "tag", reset_less=True)
            m.d.comb += self.o.payload.tag.eq(tag.at("output"))
        probe(self, valid=valid, last_full=last_full)
        return m

    def _table(self, m: Module, platform: object, accept: Value) -> tuple[Value, Value, Value]:
        """Fill and read the table; returns shift and mantissa of the sums' query, and a flag: its block is complete."""
        spec, sums, inverse = self.spec, self.i.payload, self.inverse.payload
        m.submodules.table = table = ram(platform, spec.inverse_memory)
        write, read = table.write_port(), table.read_port(domain="comb")
        full, into, out = Signal(2), Signal(), Signal()
        complete = Signal()
        query = Signal.like(sums.query)
        halvings = inverse.exponent - spec.exponents[0]
        fills, frees = Signal(), Signal()
        m.d.comb += [
            self.inverse.ready.eq(~full.bit_select(into, 1)),
            write.en.eq(self.inverse.valid & self.inverse.ready),
            write.addr.eq(Cat(query, into)),
            write.data.eq(Cat(inverse.mantissa, halvings[: len(write.data) - INVERSE.width])),
            read.addr.eq(Cat(sums.query, out)),
            fills.eq(write.en & inverse.last),
            frees.eq(accept & sums.last),
        ]
        with m.If(write.en):
            m.d.sync += query.eq(Mux(inverse.last, 0, query + 1))
        m.d.sync += [into.eq(into ^ fills), out.eq(out ^ frees)]
        for bank in range(2):
            m.d.sync += full[bank].eq(full[bank] & ~(frees & (out == bank)) | fills & (into == bank))
        m.d.sync += complete.eq(fills & (into == out ^ frees) | Mux(frees, full.bit_select(~out, 1), complete))
        probe(self, full=full, into=into, out=out, there=complete)
        return read.data[INVERSE.width :], read.data[: INVERSE.width], complete
