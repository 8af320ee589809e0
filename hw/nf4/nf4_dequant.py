"""RTL of `nf4_dequant`: a DSP per lane multiplies level and scale, rounded half to even."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ...golden.fixed import Q8_16
from ...golden.nf4.codec import LEVEL_FRACTION, LEVELS
from ...golden.nf4.nf4_dequant import Nf4DequantSpec
from ..ports import elements, members
from ..primitives.mux_tree import mux_tree
from ..primitives.pipeline import Pipeline


class Nf4Dequant(wiring.Component):
    """Convert NF4 codes to Q8.16: a word of lanes a cycle, with a latency of `spec.latency` (4) cycles.

    A DSP per lane multiplies and adds half an LSB; for a tie the result's lowest bit is cleared. All stages stall while
    the last stage is full and not accepted.
    """

    def __init__(self, spec: Nf4DequantSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        fields = {item.name: elements(getattr(self.i.payload, item.name), item) for item in spec.streams()["i"].fields}
        results = elements(self.o.payload.value, spec.streams()["o"].fields[0])
        move = Signal()
        pipeline = Pipeline(m, {"code": 0, "operands": 1, "product": 1, "total": 1, "value": 1}, enable=move)
        assert pipeline.latency("code", "value") == spec.latency
        m.d.comb += [move.eq(~self.o.valid | self.o.ready), self.i.ready.eq(move)]
        valid = Signal(spec.latency)
        m.d.comb += self.o.valid.eq(pipeline.place_flag("code", self.i.valid, valid).at("value"))
        for j, (code, result) in enumerate(zip(fields["code"], results, strict=True)):
            scale = mux_tree(fields["select"][j], fields["scale"]) if spec.select_bits else fields["scale"][0]
            m.d.comb += result.eq(self._lane(m, move, code, scale, j))
        if spec.tag:
            tag = pipeline.place("code", self.i.payload.tag, "tag", reset_less=True)
            m.d.comb += self.o.payload.tag.eq(tag.at("value"))
        return m

    def _lane(self, m: Module, move: Signal, code: Value, scale: Value, j: int) -> Value:
        level, factor, product, total = (
            Signal(signed(width), name=f"{name}_{j}", reset_less=True)
            for name, width in (("level", 18), ("factor", Q8_16.width), ("product", 42), ("total", 42))
        )
        value = Signal(signed(Q8_16.width), name=f"value_{j}", reset_less=True)
        half = 1 << (LEVEL_FRACTION - 1)
        # dropped bits of 0: the product was a tie, so make the result even
        tie = ~total[:LEVEL_FRACTION].any()
        rounded = total[LEVEL_FRACTION:][: Q8_16.width]
        with m.If(move):
            m.d.sync += [
                level.eq(mux_tree(code, [Const(entry, level.shape()) for entry in LEVELS.tolist()])),
                factor.eq(scale),
                product.eq(level * factor),
                total.eq(product + half),
                value.eq(Cat(Mux(tie, 0, rounded[0]), rounded[1:])),
            ]
        return value
