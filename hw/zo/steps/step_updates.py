"""Walks that apply a step's coefficients to the deltas."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.zo.coefficient import COEFFICIENT
from ....golden.zo.scalars import LARGEST
from ....golden.zo.split import COEFFICIENT_MEMORY, MOST_PERTURBATIONS, MOST_SLOPES
from ...ports import shape
from ...primitives.ram import ram
from ...primitives.rounding import saturate
from ..deltas.walks import WalkRange

_WIDTH = COEFFICIENT.width
_SUM = _WIDTH + MOST_PERTURBATIONS.bit_length()
_DIGITS = LARGEST.bit_length()
"""Bits of a scalar's magnitude."""


class UpdateWalk(data.StructLayout):
    """An update walk: range of words, multiple of the perturbation, and a flag: last walk of the step.

    Attributes
    ----------
    range : `WalkRange`
    coefficient : `golden.zo.coefficient.COEFFICIENT`
    final : 1
    """

    def __init__(self) -> None:
        super().__init__({"range": WalkRange, "coefficient": shape(COEFFICIENT), "final": 1})


class StepUpdates(wiring.Component):
    """Store a step's coefficients, then issue its update walks: one for each coefficient.

    With a cut, each coefficient is a walk after the cut, and the sum of a group of `second` coefficients is a walk
    before the cut.

    Attributes
    ----------
    first, second : In, 5
        Number of perturbations before the cut, and after the cut for each of them; stable during a command.
    cut : In, 1
        The network is cut; if low, each coefficient is a walk over all words.
    scalars : In, 1
        Round coefficients to 8 bits with a common shift, `golden.zo.scalars.Scalars`.
    coefficient : In stream of coefficients
        The step's coefficients in order; all come before `start`.
    start : In, 1
        Begin the walks; one cycle, not before `done` of the previous step.
    walk : Out stream of `UpdateWalk`
        Walks of the step, in the order of the perturbations. The coefficient is stable until the next walk is offered.
    moved : In, 1
        The accepted walk is over; one cycle.
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
        coefficient, loops, sums = self.coefficient, _SlopeLoops(), _Sum()
        m.submodules.slopes = slopes = ram(platform, COEFFICIENT_MEMORY)
        into, port = slopes.write_port(), slopes.read_port(domain="comb")
        m.d.comb += [
            coefficient.ready.eq(1),
            into.en.eq(coefficient.valid),
            into.addr.eq(loops.count),
            into.data.eq(coefficient.payload),
            port.addr.eq(loops.address),
        ]
        largest, mask = self._largest(m), Signal(_WIDTH - _DIGITS, reset_less=True)
        addend, clips = self._rounded(m, port.data, mask)
        m.d.sync += loops.outer_ends.eq(loops.outer == self.first - 1)
        m.d.sync += loops.inner_ends.eq(loops.inner == self.second - 1)
        with m.If(coefficient.valid):
            m.d.sync += loops.count.eq(loops.count + 1)
        with m.FSM():
            self._begin_states(m, loops, sums, largest, mask)
            self._take_states(m, loops, sums, largest, addend, clips)
            self._walk_states(m, loops, sums)
        return m

    def _begin_states(self, m: Module, loops: _SlopeLoops, sums: _Sum, largest: Signal, mask: Signal) -> None:
        """Go to a step's first coefficient; with scalars, find the common shift before."""
        with m.State("IDLE"):
            m.d.sync += [loops.outer.eq(0), loops.inner.eq(0), loops.address.eq(0), loops.first_address.eq(0)]
            m.d.sync += [mask.eq(0), sums.total.eq(0), sums.summing.eq(self.cut)]
            with m.If(self.start):
                m.d.sync += loops.count.eq(0)
                m.next = "FETCH"
                with m.If(self.scalars & largest[_DIGITS:].any()):
                    m.d.sync += mask.eq(1)
                    m.next = "SCALE"
        with m.State("SCALE"):
            # the lowest bit is half a scalar's LSB: 255 such halves would round up to 128, an overflow
            m.d.sync += [largest.eq(largest >> 1), mask.eq(Cat(1, mask))]
            with m.If(~largest[_DIGITS + 1 :].any() & ~largest[: _DIGITS + 1].all()):
                m.d.sync += mask.eq(mask)
                m.next = "FETCH"

    def _take_states(
        self, m: Module, loops: _SlopeLoops, sums: _Sum, largest: Signal, addend: Value, clips: Value
    ) -> None:
        """Read and round a coefficient; add it to the sum before the cut, or offer its walk after the cut."""
        walk = self.walk.payload
        with m.State("FETCH"):
            m.d.sync += largest.eq(0)
            m.next = "ODD"
        with m.State("ODD"):
            m.next = "ROUND"
        with m.State("ROUND"):
            m.next = "TAKE"
        with m.State("TAKE"):
            with m.If(sums.summing):
                m.d.sync += sums.total.eq(sums.total + addend)
                m.d.sync += [loops.address.eq(loops.address + 1), loops.inner.eq(loops.inner + 1)]
                m.next = "FETCH"
                with m.If(loops.inner_ends):
                    m.d.sync += [loops.address.eq(loops.first_address), loops.inner.eq(0), sums.summing.eq(0)]
                    m.next = "SUM"
            with m.Else():
                m.d.comb += self.clipped.eq(clips)
                m.d.sync += [
                    walk.coefficient.eq(addend),
                    walk.range.eq(Mux(self.cut, WalkRange.SECOND, WalkRange.ALL)),
                    walk.final.eq(loops.outer_ends & loops.inner_ends),
                ]
                m.next = "OFFER"

    def _walk_states(self, m: Module, loops: _SlopeLoops, sums: _Sum) -> None:
        """Offer a walk and wait for its end; then continue with the next coefficient."""
        walk, limited = self.walk.payload, saturate(sums.total, _WIDTH)
        with m.State("SUM"):
            m.d.comb += self.clipped.eq(limited != sums.total)
            m.d.sync += [walk.coefficient.eq(limited), walk.range.eq(WalkRange.FIRST), walk.final.eq(0)]
            m.next = "OFFER"
        with m.State("OFFER"):
            m.d.comb += self.walk.valid.eq(1)
            with m.If(self.walk.ready):
                m.next = "WALK"
        with m.State("WALK"):
            # may repeat in every cycle, as nothing reads these registers before the walk's end
            with m.If((walk.range != WalkRange.FIRST) & loops.inner_ends):
                m.d.sync += [sums.total.eq(0), sums.summing.eq(self.cut)]
            with m.If(self.moved):
                m.next = "FETCH"
                with m.If(walk.range != WalkRange.FIRST):
                    m.d.sync += [loops.address.eq(loops.address + 1), loops.inner.eq(loops.inner + 1)]
                    with m.If(loops.inner_ends):
                        m.d.sync += [loops.first_address.eq(loops.address + 1), loops.outer.eq(loops.outer + 1)]
                        m.d.sync += loops.inner.eq(0)
                        with m.If(loops.outer_ends):
                            m.d.comb += self.done.eq(1)
                            m.next = "IDLE"

    def _largest(self, m: Module) -> Signal:
        """Largest magnitude of the accepted coefficients, two cycles after the last coefficient."""
        largest, magnitude, taken = Signal(_WIDTH), Signal(_WIDTH, reset_less=True), Signal()
        coefficient = self.coefficient
        m.d.sync += [
            magnitude.eq(Mux(coefficient.payload[-1], -coefficient.payload, coefficient.payload)),
            taken.eq(coefficient.valid),
        ]
        with m.If(taken & (magnitude > largest)):
            m.d.sync += largest.eq(magnitude)
        return largest

    def _rounded(self, m: Module, coefficient: Value, mask: Signal) -> tuple[Value, Value]:
        """Coefficient without the bits of the mask, rounded half to even, three cycles later; and a flag: clipped."""
        slope, odd = Signal(signed(_WIDTH), reset_less=True), Signal(reset_less=True)
        rounded = Signal(signed(_WIDTH + 1), reset_less=True)
        last_place = Cat(1, mask) & ~mask
        m.d.sync += [
            slope.eq(coefficient),
            odd.eq((slope & last_place).any() & mask[0]),
            # half to even: add half minus 1; add 1 more if the lowest kept bit is 1
            rounded.eq((slope + mask[1:] + odd) & Cat(~mask, C(-1, signed(_WIDTH + 1 - len(mask))))),
        ]
        return saturate(rounded, _WIDTH), rounded[-1] != rounded[-2]


class _SlopeLoops:
    """Registers of two nested loops over a step's coefficients: perturbations before and after the cut.

    Attributes
    ----------
    count, address, first_address : range(MOST_SLOPES)
        Number of stored coefficients; address of the current coefficient, and of the outer iteration's first one.
    outer, inner : range(MOST_PERTURBATIONS)
        Perturbation indices of the current coefficient.
    outer_ends, inner_ends : 1
        The outer loop, the inner loop is in its last iteration.
    """

    def __init__(self) -> None:
        self.count, self.address, self.first_address = (
            Signal(range(MOST_SLOPES), name=name) for name in ("count", "address", "first_address")
        )
        self.outer, self.outer_ends = Signal(range(MOST_PERTURBATIONS)), Signal()
        self.inner = Signal(range(MOST_PERTURBATIONS))
        self.inner_ends = Signal()


class _Sum:
    """Sum of the coefficients of a perturbation before the cut, and a flag: the sum is incomplete."""

    def __init__(self) -> None:
        self.total, self.summing = Signal(signed(_SUM), reset_less=True), Signal(name="summing")
