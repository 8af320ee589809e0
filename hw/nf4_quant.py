"""RTL of `nf4_quant`: a memory of two halves, two DSPs for the thresholds, fifteen comparators."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import memory, wiring

from ..golden.fixed import Q8_16
from ..golden.nf4 import THRESHOLD_FRACTION, THRESHOLDS
from ..golden.nf4_dequant import SCALE
from ..golden.nf4_quant import Nf4QuantSpec
from .choice import chosen
from .ports import members

_LOW = 17
"""Bits of a threshold that the first DSP takes, as many as its narrow operand has beside the sign."""


class Nf4Quant(wiring.Component):
    """A value a cycle in; 23 cycles after a block's last one its codes, one a cycle.

    In the steady state a block of n takes n + 18 cycles. Values are taken until both halves are full; all the rest
    waits while a code is on offer and not taken.
    """

    def __init__(self, spec: Nf4QuantSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = self.spec.address_bits
        m.submodules.values = values = memory.Memory(shape=Q8_16.width, depth=2 << bits, init=[])
        write, read = values.write_port(), values.read_port()
        move = Signal()

        # the largest magnitude, as twice itself less the sign: no negation, and the order is the same
        full, half = Signal(), Signal()
        written, end = Signal(bits), Signal(bits)
        given = self.i.payload
        sign = given.value[-1]
        doubled = Cat(sign, given.value[:-1] ^ sign.replicate(Q8_16.width - 1))
        largest = Signal(Q8_16.width)
        m.d.comb += [
            self.i.ready.eq(~full),
            write.addr.eq(Cat(written, half)),
            write.data.eq(given.value),
            write.en.eq(self.i.valid & ~full),
        ]
        with m.If(write.en):
            m.d.sync += [written.eq(Mux(given.last, 0, written + 1)), full.eq(given.last), end.eq(written)]
            with m.If((written == 0) | (doubled > largest)):
                m.d.sync += largest.eq(doubled)

        # a block's turn: its scale, its thresholds, its codes
        magnitude = Signal(Q8_16.width)
        scale = Signal(SCALE.width)
        m.d.comb += scale.eq(magnitude[:-1] | magnitude[-1].replicate(SCALE.width))
        place, left, side = Signal(bits), Signal(bits), Signal()
        step = Signal(range(self.spec.overhead))
        deriving, giving, at_end = Signal(), Signal(), Signal()
        m.d.comb += [read.addr.eq(Cat(place, side)), read.en.eq(move)]
        with m.FSM():
            with m.State("wait"), m.If(move & full):
                m.d.sync += [
                    magnitude.eq(largest[1:] + largest[0]),
                    *(full.eq(0), half.eq(~half), side.eq(half), left.eq(end), at_end.eq(end == 0)),
                ]
                m.next = "derive"
            with m.State("derive"):
                # two steps more than thresholds: then the first value and the last threshold arrive together
                m.d.comb += deriving.eq(step < len(THRESHOLDS))
                with m.If(move):
                    m.d.sync += step.eq(step + 1)
                    with m.If(step == len(THRESHOLDS) + 1):
                        m.d.sync += step.eq(0)
                        m.next = "give"
            with m.State("give"):
                m.d.comb += giving.eq(1)
                with m.If(move):
                    m.d.sync += [place.eq(place + 1), left.eq(left - 1), at_end.eq(left == 1)]
                    with m.If(at_end):
                        m.d.sync += place.eq(0)
                        m.next = "wait"

        thresholds, arrives = self._thresholds(m, move, scale, step, deriving)
        flow, final = Signal(4), Signal(4)
        value = Signal(signed(Q8_16.width), reset_less=True)
        above = Signal(len(thresholds), reset_less=True)
        code, shown = Signal(4, reset_less=True), Signal(SCALE.width, reset_less=True)
        with m.If(move):
            m.d.sync += [
                flow.eq(Cat(giving, flow[:-1])),
                final.eq(Cat(giving & at_end, final[:-1])),
                value.eq(read.data),
                above.eq(Cat(value > threshold for threshold in thresholds)),
                code.eq(_count(above)),
            ]
            # by then the last code of the block before has been taken
            with m.If(arrives):
                m.d.sync += shown.eq(scale)
        result = self.o.payload
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            self.o.valid.eq(flow[-1]),
            *(result.code.eq(code), result.scale.eq(shown), result.last.eq(final[-1])),
        ]
        return m

    def _thresholds(
        self, m: Module, move: Value, scale: Value, step: Value, deriving: Value
    ) -> tuple[list[Signal], Value]:
        """Scale times each constant, one a cycle: floor((scale high + floor(scale low / 2**17)) / 2**11)."""

        def register(name: str, width: int) -> Signal:
            return Signal(signed(width), name=name, reset_less=True)

        # a sixteenth constant, never used, makes them a power of two
        constants = [*THRESHOLDS.tolist(), 0]
        narrow, wide = _LOW + 1, Q8_16.width
        low_factor, low_constant, low_product, low = map(
            register, ("low_factor", "low_constant", "low_product", "low"), (wide, narrow, wide + narrow, wide + narrow)
        )
        # the second DSP works a cycle later, as its sum needs the first one's
        high_factor, high_constant, high_product, total = map(
            register, ("high_factor", "high_constant", "high_product", "total"), (wide, narrow, wide + narrow, 48)
        )
        number, later = step[:4], Signal(4)
        arrives = Signal(4)
        thresholds = [register(f"threshold_{k}", Q8_16.width) for k in range(len(THRESHOLDS))]
        with m.If(move):
            m.d.sync += [
                low_factor.eq(scale),
                low_constant.eq(chosen(number, [entry & ((1 << _LOW) - 1) for entry in constants])),
                low_product.eq(low_factor * low_constant),
                low.eq(low_product),
                later.eq(number),
                high_factor.eq(low_factor),
                high_constant.eq(chosen(later, [entry >> _LOW for entry in constants])),
                high_product.eq(high_factor * high_constant),
                total.eq(high_product + (low >> _LOW)),
                arrives.eq(Cat(deriving, arrives[:-1])),
            ]
            # they move up to their places
            with m.If(arrives[-1]):
                found = total[THRESHOLD_FRACTION - _LOW :][: Q8_16.width]
                m.d.sync += Cat(thresholds).eq(Cat(*thresholds[1:], found))
        return thresholds, arrives[-1]


def _count(above: Value) -> Value:
    """How many are set of bits that are set from the lowest on: thresholds rise."""
    return Cat((above[(1 << bit) - 1 :: 1 << bit]).xor() for bit in range(4))
