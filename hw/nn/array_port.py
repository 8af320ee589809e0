"""Interfaces of the array of multipliers, and formats of its operands; directions are the user's."""

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
        """Fraction bits of products and exact sums."""
        return self.x.fraction + self.w.fraction

    def sum_width(self, terms: int) -> int:
        """Bits of an exact sum of `terms` products."""
        return accumulator_width(self.x, self.w, terms)


NETWORK_FORMATS = OperandFormats()
"""Activations times parameters."""


class ArrayPort(wiring.Signature):
    """Operands of a word, and sums, without handshake.

    Parameters
    ----------
    lanes, columns : int
        Size of the array.
    within_width : int
        Bits of a sum within a multiplier.
    words_per_cycle : int
        Words of `x` taken at once, 1, 2 or 4.
    formats : OperandFormats
        Formats of `x` and `w`.

    Attributes
    ----------
    x : Out, array of lanes * words_per_cycle numbers
        Activations, word by word; each word is multiplied by an equal part of the columns, in order.
    w : Out, array of lanes * columns numbers
        Parameters, lane by lane.
    enable : Out, 1
        The word is valid.
    within : Out, 1
        Sums are within each multiplier, not across the lanes.
    first, last : Out, 1
        First, last word of a sum.
    operands : In, as x
        Operand registers: `x` one cycle later.
    valid : In, 1
        `y` has sums across the lanes, `golden.nn.array.latency.across_latency` cycles after their last word.
    y : In, array of columns numbers, as x
        Rounded sums across the lanes.
    completing : In, 1
        `complete` of the next cycle, for replicated registers of it.
    complete : In, 1
        `sums` has sums within the multipliers, `golden.nn.array.latency.within_latency` cycles after their last word.
    sums : In, array of lanes * columns integers, `OperandFormats.fraction` bits behind the point
        Exact sums within the multipliers, held until the next word.
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
    """Sums in parts, of single lanes or of halves of the lanes.

    Parameters
    ----------
    lanes : bool
        Sums within the first column can be rounded as sums across, `columns` lanes a cycle.
    halves : bool
        Each half of the lanes can have its own sum in each column.

    Attributes
    ----------
    rounds : Out, 1, only with `lanes`
        With a word of a sum within: round the lanes' sums, without `complete`. They take a cycle a part, from the cycle
        of a sum across on, with a bias each; no other sums may come in these cycles.
    halved : Out, 1, only with `halves`
        With a word of a sum across: each half of the lanes has a sum, the upper a cycle after the lower. The next cycle
        may have no last word of another sum.
    further : In, 1
        Another part of a sum follows, `bias_cycles` - 1 - `within_latency` cycles before its biases.
    rest : In, 1
        The sums are of a part after the first, with `ArrayPort.valid`.
    """

    def __init__(self, lanes: bool, halves: bool) -> None:
        members = dict.fromkeys(("further", "rest"), In(1))
        if lanes:
            members["rounds"] = Out(1)
        if halves:
            members["halved"] = Out(1)
        super().__init__(members)
