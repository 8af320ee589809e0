"""RTL of `perturb`: a rounding for each number, an adder and a saturation for each weight."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ...golden.fixed import Q4_12
from ...golden.zo.perturb import PerturbSpec
from ..ports import elements, layout, members
from ..primitives.rounding import saturate


class Perturb(wiring.Component):
    """Perturb a word of weights a cycle: w + sign * eps * scale * number.

    The latency `spec.latency` is 1; with a scale factor 2, as the product has a register.
    """

    def __init__(self, spec: PerturbSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        fields = {item.name: item for item in spec.streams()["i"].fields}
        operands, valid = self.i.payload, self.i.valid
        full = Signal()
        move = Signal()
        m.d.comb += [move.eq(~full | self.o.ready), self.o.valid.eq(full)]

        numbers = elements(operands.number, fields["number"])
        if spec.scale_format:
            products = [self._product(number, operands.scale) for number in numbers]
            held = Signal(layout(spec.streams()["i"]))
            stored = Signal()
            registers = [Signal(signed(spec.product_format.width), name=f"product_{j}") for j in range(spec.used)]
            accept = ~stored | move
            with m.If(accept):
                m.d.sync += [stored.eq(valid), held.eq(operands)]
                m.d.sync += [register.eq(product) for register, product in zip(registers, products, strict=True)]
            m.d.comb += self.i.ready.eq(accept)
            products, operands, valid = registers, held, stored
        else:
            products = [Cat(1, number).as_signed() if spec.odd else number for number in numbers]
            m.d.comb += self.i.ready.eq(move)

        minus, active = operands.sign[1], operands.sign[0]
        steps = [self._step(m, product, j) for j, product in enumerate(products)]
        with m.If(move):
            m.d.sync += full.eq(valid)
        weights = elements(operands.weight, fields["weight"])
        results = elements(self.o.payload.weight, fields["weight"])
        for j, (weight, result) in enumerate(zip(weights, results, strict=True)):
            step, up = steps[j % spec.used]
            total = Signal(Q4_12.width + 1, name=f"total_{j}")
            lane = Signal(signed(Q4_12.width), name=f"lane_{j}")
            m.d.comb += total.eq(self._add(weight, step, up, minus, active))
            with m.If(move):
                m.d.sync += lane.eq(self._fit(total))
            m.d.comb += result.eq(lane)
        if spec.tag:
            tag = Signal(spec.tag)
            with m.If(move):
                m.d.sync += tag.eq(operands.tag)
            m.d.comb += self.o.payload.tag.eq(tag)
        return m

    def _product(self, number: Value, factor: Value) -> Value:
        """Number times factor, as a sum of shifted numbers: a factor has too few bits for a DSP."""
        exact = Cat(1, number).as_signed() if self.spec.odd else number
        terms = [Mux(bit, exact, 0) << k for k, bit in enumerate(factor)]
        return sum(terms[1:], start=terms[0])

    def _step(self, m: Module, product: Value, j: int) -> tuple[Value, Value]:
        """Product without its low `shift` bits, and the increment, 0 or 1, that rounds to nearest, ties to even."""
        shift = self.spec.shift
        product = _extended(product, max(shift + 1, len(product))).as_signed()
        step = Signal(signed(self.spec.delta_format.width), name=f"step_{j}")
        up = Signal(name=f"up_{j}")
        m.d.comb += step.eq(product[shift:].as_signed())
        if self.spec.rounding == "half-even":
            m.d.comb += up.eq(product[shift - 1] & (product[: shift - 1].any() | product[shift]))
        return step, up

    def _add(self, weight: Value, step: Value, up: Value, minus: Value, active: Value) -> Value:
        """``weight + sign * (step + up)`` in one carry chain: -x is the inverted x plus 1."""
        width = Q4_12.width + 1
        operand = (_extended(step, width) ^ minus.replicate(width)) & active.replicate(width)
        carry = active & (up ^ minus)
        return _extended(weight, width) + operand + carry

    def _fit(self, total: Signal) -> Value:
        return total[: Q4_12.width] if self.spec.overflow == "wrap" else saturate(total, Q4_12.width)


def _extended(value: Value, width: int) -> Value:
    return Cat(value, value[-1].replicate(width - len(value)))
