"""RTL of `activation_function`: a ReLU, from which a table's value of the magnitude is subtracted."""

from amaranth.hdl import EnableInserter, Module, Mux, Signal, signed
from amaranth.lib import wiring

from ...golden.fixed import Q8_16
from ...golden.stream.activation_function import KINDS, SHIFT, ActivationFunctionSpec
from ..ports import elements, members
from ..primitives.pipeline import Pipeline
from ..primitives.rounding import RoundSaturate
from .pwl import PiecewiseLinear


class ActivationFunction(wiring.Component):
    """One of four functions of each value, one word of lanes a cycle, `spec.latency` (12) cycles later.

    All stages wait while the last one is full and not taken.

    Parameters
    ----------
    spec : ActivationFunctionSpec
        Number of lanes, width of the tag.

    Attributes
    ----------
    i : In, stream of ``value`` (lanes of 24 bits), ``kind``, ``input_shift``, ``output_shift``, ``tag``
        Values of ``16 - input_shift`` fraction bits, the number in `KINDS`; `tag` only where it has bits.
    o : Out, stream of ``value`` (lanes of 24 bits), ``clipped`` (a bit a lane), ``tag``
        The function with ``16 - output_shift`` fraction bits, rounded half to even; where `clipped`, saturated.
    """

    def __init__(self, spec: ActivationFunctionSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, given = self.spec, self.i.payload
        move = Signal()
        stages = {
            "input": 0,
            "aligned": 1,
            "magnitude": 1,
            "table": PiecewiseLinear.LATENCY,
            "difference": 1,
            "scaled": 1,
            "output": RoundSaturate.LATENCY,
        }
        pipeline = Pipeline(m, stages, enable=move)
        assert pipeline.latency("input", "output") == spec.latency
        m.d.comb += [move.eq(~self.o.valid | self.o.ready), self.i.ready.eq(move)]
        valid = Signal(spec.latency)
        m.d.comb += self.o.valid.eq(pipeline.place_flag("input", self.i.valid, valid).at("output"))
        kind = pipeline.place("input", given.kind, "kind", reset_less=True)
        # always the same bits are rounded off
        left = pipeline.place("input", ~given.output_shift, "left", reset_less=True).at("difference")
        plain = pipeline.place("aligned", kind.at("aligned") == KINDS.index("relu"), "plain", reset_less=True)
        m.submodules.functions = EnableInserter(move)(functions := PiecewiseLinear(spec.table, spec.lanes))
        # a ReLU reads any function, and drops it
        m.d.comb += functions.function.eq(kind.at("magnitude") - 1)
        ends = [one.segments << one.segment_bits for one in spec.table.functions]
        streams = spec.streams()
        values = elements(given.value, streams["i"].fields[0])
        results, flags = (elements(getattr(self.o.payload, one.name), one) for one in streams["o"].fields[:2])
        for lane, value in enumerate(values):
            aligned = Signal(signed(Q8_16.width + SHIFT.maximum), name=f"aligned{lane}", reset_less=True)
            pipeline.load(aligned, value << given.input_shift)
            magnitude = Signal(len(aligned), name=f"magnitude{lane}", reset_less=True)
            pipeline.load(magnitude, Mux(aligned[-1], -aligned, aligned))
            m.d.comb += functions.argument[lane].eq(magnitude)
            beyond = plain.at("magnitude")
            for number, end in enumerate(ends, start=1):
                beyond = beyond | (kind.at("magnitude") == number) & magnitude[end.bit_length() - 1 :].any()
            zero = pipeline.place("magnitude", beyond, f"beyond{lane}", reset_less=True).at("table")
            positive = pipeline.place("aligned", Mux(aligned[-1], 0, aligned), f"positive{lane}", reset_less=True)
            difference = Signal(signed(len(aligned) + 1), name=f"difference{lane}", reset_less=True)
            pipeline.load(difference, positive.at("table") - Mux(zero, 0, functions.o[lane]))
            scaled = Signal(signed(len(difference) + SHIFT.maximum), name=f"scaled{lane}", reset_less=True)
            pipeline.load(scaled, difference << left)
            rounding = RoundSaturate(len(scaled), SHIFT.maximum, Q8_16)
            m.submodules[f"rounding{lane}"] = EnableInserter(move)(rounding)
            m.d.comb += [rounding.i.eq(scaled), results[lane].eq(rounding.o), flags[lane].eq(rounding.clipped)]
        if spec.tag:
            tag = pipeline.place("input", given.tag, "tag", reset_less=True)
            m.d.comb += self.o.payload.tag.eq(tag.at("output"))
        return m
