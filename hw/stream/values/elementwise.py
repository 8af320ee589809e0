"""RTL of `elementwise`: sum and product of each pair, a multiplexer, and a barrel shifter with rounding."""

from amaranth.hdl import EnableInserter, Module, Mux, Signal, signed
from amaranth.lib import wiring

from ....golden.fixed import Q8_16
from ....golden.stream.forward import SHIFT
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.elementwise import KINDS, ElementwiseSpec
from ...ports import elements, members
from ...primitives.pipeline import Pipeline
from ...primitives.registers import data_register
from ...primitives.rounding import saturate_to
from ...primitives.shifter import RoundingShifter, shift_left
from ...probe import probe
from .requantize import ROUNDED

MOST_DROPPED = Q8_16.fraction + SHIFT.maximum
"""Maximum number of bits to round off, for a product of unshifted factors."""


class Elementwise(wiring.Component):
    """Compute the sum or product of each pair, or a square: a word of lanes a cycle, with latency `spec.latency`.

    All stages stall while the last stage is full and not accepted. A product uses two DSPs per lane.
    """

    def __init__(self, spec: ElementwiseSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, word = self.spec, self.i.payload
        width, product_width = Q11_16.width + SHIFT.maximum + 1, 2 * Q8_16.width
        move = Signal()
        rounding = [RoundingShifter(product_width, MOST_DROPPED, ROUNDED) for _ in range(spec.lanes)]
        stages = {
            "input": 0,
            "operands": 1,
            "product": 1,
            "chosen": 1,
            "rounded": rounding[0].latency,
            "output": 1,
        }
        pipeline = Pipeline(m, stages, enable=move)
        assert pipeline.latency("input", "output") == spec.latency
        m.d.comb += [move.eq(~self.o.valid | self.o.ready), self.i.ready.eq(move)]
        valid = Signal(spec.latency)
        m.d.comb += self.o.valid.eq(pipeline.place_flag("input", self.i.valid, valid).at("output"))
        probe(self, valid=valid)
        kinds = {name: word.kind == number for number, name in enumerate(KINDS)}
        multiplies = kinds["multiply"] | kinds["square"]
        plain = pipeline.place("input", kinds["none"], "plain", reset_less=True).at("operands")
        square = kinds["square"]
        later = pipeline.place("input", multiplies, "multiplies", reset_less=True)
        # a value that passes is not shifted; a product is shifted on behalf of its factors, which are not
        places = Signal(range(MOST_DROPPED + 1), reset_less=True)
        shifts = word.first_shift + Mux(square, word.first_shift, word.second_shift)
        dropped = Mux(multiplies, word.output_shift + Q8_16.fraction - shifts, word.output_shift)
        pipeline.load(places, Mux(kinds["none"], 0, dropped))
        places_later = pipeline.place("operands", places, "places", reset_less=True).at("chosen")
        streams = spec.streams()
        firsts, seconds = (elements(getattr(word, field.name), field) for field in streams["i"].fields[:2])
        results, clipped = (elements(getattr(self.o.payload, field.name), field) for field in streams["o"].fields[:2])
        narrow = later.at("rounded")
        for lane, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
            registers = {
                "one": Q8_16.width,
                "two": Q8_16.width,
                "before": product_width,
                "product": product_width,
                "augend": width - 1,
                "addend": width - 1,
                "total": width,
                "chosen": product_width,
            }
            made = {
                name: Signal(signed(bits), name=f"{name}{lane}", reset_less=True) for name, bits in registers.items()
            }
            pipeline.load(made["one"], first[: Q8_16.width].as_signed())
            pipeline.load(made["two"], Mux(square, first[: Q8_16.width], second[: Q8_16.width]).as_signed())
            pipeline.load(made["product"], made["one"] * made["two"])
            pipeline.load(made["augend"], Mux(kinds["none"], first, shift_left(first, word.first_shift)))
            pipeline.load(made["addend"], shift_left(second, word.second_shift))
            pipeline.load(made["total"], made["augend"] + Mux(plain, 0, made["addend"]))
            pipeline.load(made["chosen"], Mux(later.at("product"), made["product"], made["total"]))
            m.submodules[f"rounding{lane}"] = EnableInserter(move)(rounding[lane])
            m.d.comb += [rounding[lane].i.eq(made["chosen"]), rounding[lane].places.eq(places_later)]
            value, beyond = saturate_to(rounding[lane].o, {Q8_16.width: narrow, Q11_16.width: ~narrow})
            pipeline.load(data_register(m, results[lane], f"value{lane}"), value)
            pipeline.load(data_register(m, clipped[lane], f"clipped{lane}"), beyond)
        if spec.tag:
            tag = pipeline.place("input", word.tag, "tag", reset_less=True)
            m.d.comb += self.o.payload.tag.eq(tag.at("output"))
        return m
