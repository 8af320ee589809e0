"""Interfaces of the array of multipliers, and the formats of its operands.

The directions of a `wiring.Signature` here are those of the array's user; the array has the flipped one.
"""

from dataclasses import dataclass

from amaranth.hdl import Shape, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Q4_12, Q8_16, Format, accumulator_width
from ..ports import PlainSignature


@dataclass(frozen=True)
class OperandFormats:
    """Signed formats of the operands of an array of multipliers.

    Parameters
    ----------
    x : Format
        First factors, and rounded sums across the lanes.
    w : Format
        Second factors, and biases.
    """

    x: Format = Q8_16
    w: Format = Q4_12

    @property
    def product(self) -> Shape:
        """Shape of an exact product."""
        return signed(self.x.width + self.w.width)

    @property
    def fraction(self) -> int:
        """Fraction bits of a product, and of an exact sum."""
        return self.x.fraction + self.w.fraction

    def sum_width(self, terms: int) -> int:
        """Bits of any exact sum of so many products."""
        return accumulator_width(self.x, self.w, terms)


NETWORK_FORMATS = OperandFormats()
"""Activations times parameters."""


class ArrayPort(wiring.Signature):
    """A word's operands to the array of multipliers, and the sums that come back; no handshake.

    Parameters
    ----------
    lanes, columns : int
        Size of the array.
    within_width : int
        Bits of a sum within a multiplier.
    words_per_cycle : int
        Words of `x` that are taken at once, 1, 2 or 4.
    formats : OperandFormats
        Formats of `x` and `w`: activations and parameters.

    Attributes
    ----------
    x : Out, array of lanes * words_per_cycle numbers
        Activations, word by word. The first of as many parts of the columns multiplies the first word.
    w : Out, array of lanes * columns numbers
        Parameters, lane by lane.
    enable : Out, 1
        The word counts.
    within : Out, 1
        Products are added up within each multiplier, not across the lanes.
    first, last : Out, 1
        First, last word of a sum.
    operands : In, as x
        The operand registers: `x` one cycle later.
    valid : In, 1
        `y` has sums across the lanes, `golden.nn.array.latency.across_latency` cycles after their last word.
    y : In, array of columns numbers, as x
        Rounded sums across the lanes.
    completing : In, 1
        `complete` is high in the next cycle: for registers of its own where it has many readers.
    complete : In, 1
        `sums` has sums within the multipliers, `golden.nn.array.latency.within_latency` cycles after their last word.
    sums : In, array of lanes * columns integers, `OperandFormats.fraction` bits behind the point
        Exact sums within the multipliers; they stay until the next word.
    """

    def __init__(
        self,
        lanes: int,
        columns: int,
        within_width: int,
        words_per_cycle: int = 1,
        formats: OperandFormats = NETWORK_FORMATS,
    ) -> None:
        factor, parameter = signed(formats.x.width), signed(formats.w.width)
        x = data.ArrayLayout(factor, lanes * words_per_cycle)
        super().__init__(
            {
                "x": Out(x),
                "w": Out(data.ArrayLayout(parameter, lanes * columns)),
                "enable": Out(1),
                "within": Out(1),
                "first": Out(1),
                "last": Out(1),
                "operands": In(x),
                "valid": In(1),
                "y": In(data.ArrayLayout(factor, columns)),
                "completing": In(1),
                "complete": In(1),
                "sums": In(data.ArrayLayout(signed(within_width), lanes * columns)),
            }
        )


class SumParts(PlainSignature):
    """Sums of an array of multipliers that come in parts: of lanes or of halves of the lanes.

    Parameters
    ----------
    lanes : bool
        Sums within the first column can be rounded like sums across, `columns` lanes a cycle.
    halves : bool
        Each half of the lanes can have a sum of its own in each column.

    Attributes
    ----------
    rounds : Out, 1, only with `lanes`
        With a word of a sum within: its lanes' sums are rounded, without `complete`. They come in as many cycles as
        parts as sums across, the first ones as late as one, with a bias for each; no other sums come in these cycles.
    halved : Out, 1, only with `halves`
        With a word of a sum across: its halves of the lanes have a sum each. The upper one comes a cycle behind the
        lower one; no other sum's last word comes in the cycle behind this one's.
    further : In, 1
        A part of a sum behind the first one is on its way, `bias_cycles` - 1 - `within_latency` cycles before its
        biases.
    rest : In, 1
        The sums are of a part behind the first one, in the cycle of `ArrayPort.valid`.
    """

    def __init__(self, lanes: bool, halves: bool) -> None:
        members = dict.fromkeys(("further", "rest"), In(1))
        if lanes:
            members["rounds"] = Out(1)
        if halves:
            members["halved"] = Out(1)
        super().__init__(members)
