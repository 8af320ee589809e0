"""Division by a constant, rounded half to even, as in `golden.fixed.divided`."""

import itertools

from amaranth.hdl import Const, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.arithmetic.forward import MULTIPLIER_PART, NUMERATOR_PART, Reciprocal
from .adder_tree import adder_tree
from .pipeline import delayed
from .registers import data_register


class ReciprocalDivider(wiring.Component):
    """Multiply a number a cycle by the reciprocal of a constant; no handshake; each partial product takes one DSP.

    Attributes
    ----------
    numerator : In(numerator_bits)
        Sum of `Reciprocal.count` values, plus `Reciprocal.offset`. Sampled in every cycle.
    quotient : Out(signed)
        The average, in the values' format, `Reciprocal.latency` cycles later.
    """

    def __init__(self, reciprocal: Reciprocal) -> None:
        self.reciprocal = reciprocal
        super().__init__(
            {
                "numerator": In(reciprocal.numerator_bits),
                "quotient": Out(signed(reciprocal.activation.width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reciprocal = self.reciprocal
        product = self._product(m)
        low, high = (
            product[: reciprocal.shift],
            product[reciprocal.shift : reciprocal.shift + reciprocal.activation.width],
        )
        # the quotient is offset by half its range: invert its highest bit
        tie = low < reciprocal.multiplier if reciprocal.count % 2 == 0 else Const(0, 1)
        quotient = [high[0] & ~tie, *high[1:-1], ~high[-1]]
        into = data_register(m, self.quotient)
        m.d.sync += [target.eq(bit) for target, bit in zip(into, quotient, strict=True)]
        return m

    def _product(self, m: Module) -> Value:
        """Unsigned product; in a register, except if the multiplication is a mere shift."""
        reciprocal = self.reciprocal
        across, down = reciprocal.parts
        if not across:
            return self.numerator
        numerator = Signal.like(self.numerator, reset_less=True)
        m.d.sync += numerator.eq(self.numerator)
        width = reciprocal.numerator_bits + reciprocal.multiplier.bit_length() + 1
        products: list[Value] = []
        for i, j in itertools.product(range(across), range(down)):
            part = numerator[i * NUMERATOR_PART : (i + 1) * NUMERATOR_PART]
            factor = reciprocal.multiplier >> j * MULTIPLIER_PART & (1 << MULTIPLIER_PART) - 1
            product = Signal(NUMERATOR_PART + MULTIPLIER_PART, name=f"product{i}_{j}", reset_less=True)
            m.d.sync += product.eq(part * factor)
            shifted = Signal(signed(width), name=f"shifted{i}_{j}")
            m.d.comb += shifted.eq(product << i * NUMERATOR_PART + j * MULTIPLIER_PART)
            products.append(shifted)
        products += [Const(0, signed(width))] * ((1 << (len(products) - 1).bit_length()) - len(products))
        total = adder_tree(m, products, "sum")
        # a single product needs no adder; its register is the output
        rest = reciprocal.latency - 3 - (len(products) - 1).bit_length()
        return delayed(m, total, rest, "product", reset_less=True).as_unsigned()
