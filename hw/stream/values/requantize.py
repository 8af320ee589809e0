"""RTL of `requantize`: add the shifted sum and the shifted bias, then shift right, round and saturate."""

from amaranth.hdl import EnableInserter, Module, Mux, Signal, signed
from amaranth.lib import wiring

from ....golden.fixed import Q8_16, Format
from ....golden.stream.attention import Q6_12
from ....golden.stream.forward import SHIFT, WEIGHT_BITS
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.requantize import FORMATS, MOST_DROPPED, SUM, RequantizeSpec
from ...ports import elements, members
from ...primitives.pipeline import Pipeline
from ...primitives.registers import data_register
from ...primitives.rounding import saturate_to
from ...primitives.shifter import RoundingShifter, shift_left
from ...probe import probe

ROUNDED = Format(Q11_16.width + 1, 0)
"""Format of a rounded sum: a bit wider than the widest result, to detect overflow."""


class Requantize(wiring.Component):
    """Convert sums plus biases to values: a word of lanes a cycle, with latency `spec.latency`.

    All stages stall while the last stage is full and not accepted.
    """

    def __init__(self, spec: RequantizeSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, word = self.spec, self.i.payload
        width = SUM.width + SHIFT.maximum + 1
        move = Signal()
        rounding = [RoundingShifter(width, MOST_DROPPED, ROUNDED) for _ in range(spec.lanes)]
        stages = {"input": 0, "aligned": 1, "sum": 1, "rounded": rounding[0].latency, "output": 1}
        pipeline = Pipeline(m, stages, enable=move)
        assert pipeline.latency("input", "output") == spec.latency
        m.d.comb += [move.eq(~self.o.valid | self.o.ready), self.i.ready.eq(move)]
        valid = Signal(spec.latency)
        m.d.comb += self.o.valid.eq(pipeline.place_flag("input", self.i.valid, valid).at("output"))
        probe(self, valid=valid)
        places = Signal(range(MOST_DROPPED + 1), reset_less=True)
        lacking = Mux(word.form >= FORMATS.index(Q6_12), Q8_16.fraction - Q6_12.fraction, 0)
        pipeline.load(places, word.fraction + word.output_shift + lacking)
        places_later = pipeline.place("aligned", places, "places", reset_less=True).at("sum")
        form = pipeline.place("input", word.form, "form", reset_less=True).at("rounded")
        widths = {item.width: form == number for number, item in enumerate(FORMATS[:-1])}
        widths |= {FORMATS[-1].width: form >= len(FORMATS) - 1}
        streams = spec.streams()
        inputs, biases = (elements(getattr(word, item.name), item) for item in streams["i"].fields[:2])
        results, clipped = (elements(getattr(self.o.payload, item.name), item) for item in streams["o"].fields[:2])
        for lane in range(spec.lanes):
            number, bias, total = (
                Signal(signed(bits), name=f"{name}{lane}", reset_less=True)
                for name, bits in (
                    ("number", SUM.width + SHIFT.maximum),
                    ("bias", Q8_16.width + WEIGHT_BITS - 1),
                    ("total", width),
                )
            )
            pipeline.load(number, shift_left(inputs[lane], word.input_shift))
            pipeline.load(bias, shift_left(biases[lane], word.fraction))
            pipeline.load(total, number + bias)
            m.submodules[f"rounding{lane}"] = EnableInserter(move)(rounding[lane])
            m.d.comb += [rounding[lane].i.eq(total), rounding[lane].places.eq(places_later)]
            value, beyond = saturate_to(rounding[lane].o, widths)
            pipeline.load(data_register(m, results[lane], f"value{lane}"), value)
            pipeline.load(data_register(m, clipped[lane], f"clipped{lane}"), beyond)
        if spec.tag:
            tag = pipeline.place("input", word.tag, "tag", reset_less=True)
            m.d.comb += self.o.payload.tag.eq(tag.at("output"))
        return m
