"""RTL of `activation_function`: a ReLU, minus a table lookup of the magnitude."""

from typing import NamedTuple

from amaranth.hdl import EnableInserter, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.forward import SHIFT
from ....golden.stream.values.activation_function import KINDS, TABULATED, ActivationFunctionSpec
from ...ports import elements, members
from ...primitives.pipeline import Pipeline
from ...primitives.rounding import RoundSaturate
from ...primitives.shifter import shift_left
from ...probe import probe
from ..pwl import PiecewiseLinear


class ActivationFunction(wiring.Component):
    """Apply a word's activation function to its lanes: a word per cycle, `spec.latency` (12) cycles later.

    All stages stall while the last stage is full and not accepted.
    """

    def __init__(self, spec: ActivationFunctionSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, word = self.spec, self.i.payload
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
        probe(self, valid=valid)
        # a left shift before rounding, so that the rounding position is fixed
        left_shift = pipeline.place("input", ~word.output_shift, "left", reset_less=True).at("difference")
        whole, plain = Signal(), Signal()
        m.d.comb += [whole.eq(word.kind == KINDS.index("none")), plain.eq(1)]
        function = Signal(range(len(TABULATED)))
        with m.Switch(word.kind):
            for number, name in enumerate(TABULATED):
                with m.Case(KINDS.index(name)):
                    m.d.comb += [function.eq(number), plain.eq(0)]
        whole = pipeline.place("input", whole, "whole", reset_less=True).at("aligned")
        plain = pipeline.place("input", plain, "plain", reset_less=True).at("magnitude")
        function = pipeline.place("input", function, "function", reset_less=True).at("magnitude")
        m.submodules.functions = EnableInserter(move)(functions := PiecewiseLinear(spec.table, spec.lanes))
        m.d.comb += functions.function.eq(function)
        flags = Flags(whole, plain, function, left_shift)
        streams = spec.streams()
        values = elements(word.value, streams["i"].fields[0])
        results, clipped = (elements(getattr(self.o.payload, field.name), field) for field in streams["o"].fields[:2])
        for lane, value in enumerate(values):
            aligned = Signal(signed(Q8_16.width + SHIFT.maximum), name=f"aligned{lane}", reset_less=True)
            pipeline.load(aligned, shift_left(value, word.input_shift))
            rounding = RoundSaturate(len(aligned) + 1 + SHIFT.maximum, SHIFT.maximum, Q8_16)
            m.submodules[f"rounding{lane}"] = EnableInserter(move)(rounding)
            m.d.comb += [
                rounding.i.eq(self._lane(m, pipeline, aligned, lane, functions, flags)),
                results[lane].eq(rounding.o),
                clipped[lane].eq(rounding.clipped),
            ]
        if spec.tag:
            tag = pipeline.place("input", word.tag, "tag", reset_less=True)
            m.d.comb += self.o.payload.tag.eq(tag.at("output"))
        return m

    def _lane(
        self, m: Module, pipeline: Pipeline, aligned: Signal, lane: int, functions: PiecewiseLinear, flags: "Flags"
    ) -> Signal:
        """Function of a lane's value, shifted left to the fixed rounding position."""
        magnitude = Signal(len(aligned), name=f"magnitude{lane}", reset_less=True)
        pipeline.load(magnitude, Mux(aligned[-1], -aligned, aligned))
        m.d.comb += functions.argument[lane].eq(magnitude)
        beyond = flags.plain
        for number, function in enumerate(self.spec.table.functions):
            end = function.segment_bits + exact_log2(function.segments)
            beyond = beyond | (flags.function == number) & magnitude[end:].any()
        zero = pipeline.place("magnitude", beyond, f"beyond{lane}", reset_less=True).at("table")
        passed = Mux(aligned[-1] & ~flags.whole, 0, aligned)
        positive = pipeline.place("aligned", passed, f"positive{lane}", reset_less=True).at("table")
        difference = Signal(signed(len(aligned) + 1), name=f"difference{lane}", reset_less=True)
        pipeline.load(difference, positive - Mux(zero, 0, functions.o[lane]))
        scaled = Signal(signed(len(difference) + SHIFT.maximum), name=f"scaled{lane}", reset_less=True)
        pipeline.load(scaled, shift_left(difference, flags.left))
        return scaled


class Flags(NamedTuple):
    """Controls from a word's kind and shifts, each at the stage that reads it.

    Parameters
    ----------
    whole : Value
        Kind "none": negative values pass too. At "aligned".
    plain : Value
        No table lookup: nothing is subtracted from the ReLU. At "magnitude".
    function : Value
        Index of the function in the table. At "magnitude".
    left : Value
        Left shift to the fixed rounding position. At "difference".
    """

    whole: Value
    plain: Value
    function: Value
    left: Value
