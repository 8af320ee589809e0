"""Step updates: coefficients of a step's slopes, and the walks over the deltas that they ask for."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.zo.coefficient import COEFFICIENT
from ....golden.zo.scalars import LARGEST
from ....golden.zo.split import MOST_PERTURBATIONS, MOST_SLOPES
from ...ports import shape
from ...primitives.rounding import saturate
from ..deltas.walks import WalkRange

_WIDTH = COEFFICIENT.width
_SUM = _WIDTH + MOST_PERTURBATIONS.bit_length()
_DIGITS = LARGEST.bit_length()
"""Bits of a scalar's magnitude."""


class UpdateWalk(data.StructLayout):
    """A walk that updates: its words, the multiple of the perturbation, and whether it is the step's last one.

    Attributes
    ----------
    range : `WalkRange`
    coefficient : `golden.zo.coefficient.COEFFICIENT`
    final : 1
    """

    def __init__(self) -> None:
        super().__init__({"range": WalkRange, "coefficient": shape(COEFFICIENT), "final": 1})


class StepUpdates(wiring.Component):
    """Keep the coefficients of a step, then give its walks: of the first part with a sum, of the second one by one.

    Attributes
    ----------
    first, second : In, 5
        Perturbations of the first part, and of the second part for each of those; stay the same during a command.
    cut : In, 1
        There are two parts; without, each slope is a walk over all words.
    scalars : In, 1
        Coefficients are rounded to 8 bits with a common shift, `golden.zo.scalars.Scalars`.
    coefficient : In stream of coefficients
        In the order of the slopes; the step's are to be there before `start`.
    start : In, 1
        Begin; one cycle, not before `done` of the step before.
    walk : Out stream of `UpdateWalk`
        The step's walks, in the order of their positions. The coefficient stays until the next walk is offered.
    moved : In, 1
        The walk that was taken is over; one cycle.
    done : Out, 1
        All walks are over; one cycle.
    clipped : Out, 1
        A rounded coefficient or a sum was saturated; one cycle.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                **dict.fromkeys(("first", "second"), In(range(MOST_PERTURBATIONS + 1))),
                **dict.fromkeys(("cut", "scalars", "start", "moved"), In(1)),
                "coefficient": In(stream.Signature(shape(COEFFICIENT))),
                "walk": Out(stream.Signature(UpdateWalk())),
                **dict.fromkeys(("done", "clipped"), Out(1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        walk, coefficient = self.walk.payload, self.coefficient
        m.submodules.slopes = slopes = memory.Memory(
            shape=_WIDTH, depth=MOST_SLOPES, init=[], attrs={"ram_style": "distributed"}
        )
        into, port = slopes.write_port(), slopes.read_port(domain="comb")
        count, address, first_address = (
            Signal(range(MOST_SLOPES), name=name) for name in ("count", "address", "first_address")
        )
        m.d.comb += [
            coefficient.ready.eq(1),
            into.en.eq(coefficient.valid),
            into.addr.eq(count),
            into.data.eq(coefficient.payload),
            port.addr.eq(address),
        ]
        largest, mask = self._largest(m), Signal(_WIDTH - _DIGITS)
        addend, clips = self._rounded(m, port.data, mask)
        total, summing = Signal(signed(_SUM)), Signal()
        limited = saturate(total, _WIDTH)
        i, j = Signal(range(MOST_PERTURBATIONS)), Signal(range(MOST_PERTURBATIONS))
        last_i, last_j = Signal(), Signal()
        m.d.sync += [last_i.eq(i == self.first - 1), last_j.eq(j == self.second - 1)]
        with m.If(coefficient.valid):
            m.d.sync += count.eq(count + 1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [
                    i.eq(0),
                    j.eq(0),
                    address.eq(0),
                    first_address.eq(0),
                    mask.eq(0),
                    total.eq(0),
                    summing.eq(self.cut),
                ]
                with m.If(self.start):
                    m.d.sync += count.eq(0)
                    m.next = "FETCH"
                    with m.If(self.scalars & largest[_DIGITS:].any()):
                        m.d.sync += mask.eq(1)
                        m.next = "SCALE"
            with m.State("SCALE"):
                # the lowest bit is worth half of a scalar's last place: 255 of them would be rounded up to 128
                m.d.sync += [largest.eq(largest >> 1), mask.eq(Cat(1, mask))]
                with m.If(~largest[_DIGITS + 1 :].any() & ~largest[: _DIGITS + 1].all()):
                    m.d.sync += mask.eq(mask)
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.sync += largest.eq(0)
                m.next = "ODD"
            with m.State("ODD"):
                m.next = "ROUND"
            with m.State("ROUND"):
                m.next = "TAKE"
            with m.State("TAKE"):
                with m.If(summing):
                    m.d.sync += [total.eq(total + addend), address.eq(address + 1), j.eq(j + 1)]
                    m.next = "FETCH"
                    with m.If(last_j):
                        m.d.sync += [address.eq(first_address), j.eq(0), summing.eq(0)]
                        m.next = "SUM"
                with m.Else():
                    m.d.comb += self.clipped.eq(clips)
                    m.d.sync += [
                        walk.coefficient.eq(addend),
                        walk.range.eq(Mux(self.cut, WalkRange.SECOND, WalkRange.ALL)),
                        walk.final.eq(last_i & last_j),
                    ]
                    m.next = "OFFER"
            with m.State("SUM"):
                m.d.comb += self.clipped.eq(limited != total)
                m.d.sync += [walk.coefficient.eq(limited), walk.range.eq(WalkRange.FIRST), walk.final.eq(0)]
                m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.walk.valid.eq(1)
                with m.If(self.walk.ready):
                    m.next = "WALK"
            with m.State("WALK"), m.If(self.moved):
                m.next = "FETCH"
                with m.If(walk.range != WalkRange.FIRST):
                    m.d.sync += [address.eq(address + 1), j.eq(j + 1)]
                    with m.If(last_j):
                        m.d.sync += [
                            first_address.eq(address + 1),
                            i.eq(i + 1),
                            j.eq(0),
                            total.eq(0),
                            summing.eq(self.cut),
                        ]
                        with m.If(last_i):
                            m.d.comb += self.done.eq(1)
                            m.next = "IDLE"
        return m

    def _largest(self, m: Module) -> Signal:
        """Largest magnitude of the coefficients that were taken, two cycles after the last of them."""
        largest, magnitude, taken = Signal(_WIDTH), Signal(_WIDTH), Signal()
        coefficient = self.coefficient
        m.d.sync += [
            magnitude.eq(Mux(coefficient.payload[-1], -coefficient.payload, coefficient.payload)),
            taken.eq(coefficient.valid),
        ]
        with m.If(taken & (magnitude > largest)):
            m.d.sync += largest.eq(magnitude)
        return largest

    def _rounded(self, m: Module, coefficient: Value, mask: Signal) -> tuple[Value, Value]:
        """A coefficient without the mask's bits, rounded half to even, three cycles later; and if it is clipped."""
        slope, rounded, odd = Signal(signed(_WIDTH)), Signal(signed(_WIDTH + 1)), Signal()
        last_place = Cat(1, mask) & ~mask
        m.d.sync += [
            slope.eq(coefficient),
            odd.eq((slope & last_place).any() & mask[0]),
            # the half less one, and one more where the last place is odd
            rounded.eq((slope + mask[1:] + odd) & Cat(~mask, C(-1, signed(_WIDTH + 1 - len(mask))))),
        ]
        return saturate(rounded, _WIDTH), rounded[-1] != rounded[-2]
