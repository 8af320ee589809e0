"""RTL of `coefficient`: an accumulator, then a serial multiplication and shift in one shift register."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring

from ...golden.zo.coefficient import COEFFICIENT, RATE, SHIFT, STEP_DIFFERENCE, CoefficientSpec
from ..ports import members
from ..primitives.rounding import RoundSaturate, saturate
from ..probe import probe


class Coefficient(wiring.Component):
    """Sum a step's loss differences, multiply by minus the rate, shift right, round and saturate.

    The coefficient follows the step's last difference by ``spec.latency_of(shift)`` cycles.
    """

    def __init__(self, spec: CoefficientSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sample, result = self.i.payload, self.o.payload
        width = STEP_DIFFERENCE.width
        total = Signal(signed(width))
        high, low = Signal(signed(width), reset_less=True), Signal(RATE.width, reset_less=True)
        half, sticky = Signal(reset_less=True), Signal(reset_less=True)
        # one shift register holds both: the multiplier leaves at the low end while the product enters at the high end
        adding, moving = Signal(), Signal()
        difference = high - (total & (adding & low[0]).replicate(width).as_signed())
        with m.If(moving):
            m.d.sync += Cat(low, high).eq(Cat(low, difference)[1:])

        # a coefficient's width plus 1 bit: the final saturation then still sees every overflow
        floor = saturate(Cat(low, high).as_signed(), COEFFICIENT.width + 1)
        m.submodules.rounding = rounding = RoundSaturate(COEFFICIENT.width + 3, 2, COEFFICIENT)
        m.d.comb += [
            rounding.i.eq(Cat(sticky, half, floor)),
            result.difference.eq(total),
            result.coefficient.eq(rounding.o),
            result.clipped.eq(rounding.clipped),
        ]

        # timing: `i.ready` drives long paths, so it has a register of its own beside the state
        takes = Signal(init=1)
        m.d.comb += self.i.ready.eq(takes)
        count, shifts_left = Signal(range(RATE.width)), Signal(SHIFT.width, name="left", reset_less=True)
        with m.FSM() as fsm:
            with m.State("take"), m.If(self.i.valid):
                m.d.sync += total.eq(total + sample.difference)
                with m.If(sample.last):
                    m.d.sync += takes.eq(0)
                    m.next = "rate"
            with m.State("rate"):
                m.d.comb += self.rate.ready.eq(1)
                m.d.sync += [low.eq(self.rate.payload.rate), shifts_left.eq(self.rate.payload.shift)]
                m.d.sync += [high.eq(0), half.eq(0), sticky.eq(0)]
                with m.If(self.rate.valid):
                    m.next = "multiply"
            with m.State("multiply"):
                m.d.comb += [adding.eq(1), moving.eq(1)]
                m.d.sync += count.eq(count + 1)
                with m.If(count == RATE.width - 1):
                    m.next = "shift"
            with m.State("shift"):
                with m.If(shifts_left == 0):
                    m.next = "round"
                with m.Else():
                    m.d.comb += moving.eq(1)
                    m.d.sync += [shifts_left.eq(shifts_left - 1), half.eq(low[0]), sticky.eq(sticky | half)]
            with m.State("round"):
                m.d.sync += count.eq(count + 1)
                with m.If(count == RoundSaturate.LATENCY - 2):
                    m.d.sync += count.eq(0)
                    m.next = "give"
            with m.State("give"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [total.eq(0), takes.eq(1)]
                    m.next = "take"
        probe(self, fsm, takes=takes)
        return m
