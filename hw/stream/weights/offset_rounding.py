"""Rounding of offsets to a tensor's fraction."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.weights.word_offsets import MOST_FRACTION, OFFSET
from ....golden.zo.deltas import DELTA
from ...primitives.rounding import saturate
from ...primitives.shifter import RoundingShifter

_REST = DELTA.fraction - MOST_FRACTION - 1
"""Number of low bits that are rounded off for every fraction, so only their OR matters."""
_KEPT = DELTA.width - _REST + 1
"""Width of the rest of the sum: an offset with the largest fraction, plus two bits to round off."""
_BELOW = 2


class OffsetRounding(wiring.Component):
    """Saturate a sum to the range of deltas, then shift it right and round half to even; a number a cycle.

    Attributes
    ----------
    total : In, signed
        Sum, with the fraction of `DELTA`.
    overflow : Out, 1
        The sum exceeds the range of `DELTA`; combinational.
    fraction : In, range(MOST_FRACTION + 1)
        Number of fraction bits in the offset; given one cycle after the sum.
    o : Out, signed, `OFFSET`
        Offset, saturated, `latency` cycles after the sum.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._shifter = RoundingShifter(_KEPT, MOST_FRACTION + _BELOW, OFFSET)
        super().__init__(
            {
                "total": In(signed(width)),
                "overflow": Out(1),
                "fraction": In(range(MOST_FRACTION + 1)),
                "o": Out(signed(OFFSET.width)),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a sum to its offset."""
        return 1 + self._shifter.latency

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.shifter = shifter = self._shifter
        short = Signal(signed(self.width - _REST + 1))
        clipped = Signal(signed(_KEPT), reset_less=True)
        above = self.total[DELTA.width - 1 :]
        m.d.comb += [
            short.eq(Cat(self.total[:_REST].any(), self.total[_REST:])),
            self.overflow.eq(above.any() & ~above.all()),
            shifter.i.eq(clipped),
            shifter.places.eq(MOST_FRACTION + _BELOW - self.fraction),
            self.o.eq(shifter.o),
        ]
        m.d.sync += clipped.eq(saturate(short, _KEPT))
        return m
