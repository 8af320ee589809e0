"""Walks over rows of deltas: their kinds, the interface to ask for them, and the registers of one in progress."""

from enum import IntEnum

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.zo.coefficient import COEFFICIENT
from ....golden.zo.rows import RowRange, Rows
from ....golden.zo.split import MOST_GAP
from ...ports import shape


class Walk(IntEnum):
    """Kinds of walks over all words; bit 1 is set in those that make offsets."""

    CLEAR = 0
    """Set the deltas to 0."""
    UPDATE = 1
    """Add the coefficient times the perturbation."""
    SIDES = 2
    """Make the offsets of both sides of the perturbation."""
    OFFSETS = 3
    """Make the offsets without a perturbation, as those of the plus side."""


class WalkRange(IntEnum):
    """Words of a walk."""

    ALL = 0
    FIRST = 1
    """Words of the part before the cut."""
    SECOND = 2
    """Words of the part behind it."""


class WalkControl(wiring.Signature):
    """Walks over the words, as the side sees it that asks for them.

    A sequence of walks takes one perturbation behind the other. Its last walk returns to the mark where it makes sides,
    and sets the mark where it updates.

    Parameters
    ----------
    cuts : int
        Cuts that there are.

    Attributes
    ----------
    start : Out, 1
        Begin a walk; one cycle, only while none is in progress.
    walk : Out, `Walk`
        In the cycle of `start`.
    range : Out, `WalkRange`
        In the cycle of `start`; other walks than those with a perturbation take `WalkRange.ALL`.
    final : Out, 1
        In the cycle of `start`: the walk is the last of its sequence.
    cut : Out, range(cuts + 1)
        Number of the cut, from 1 up; stays the same during a command.
    gap : Out, 6 bits
        Words of the generator that are skipped behind a perturbation, but not behind one of the first part; stays the
        same during a command.
    coefficient : Out, signed
        Multiple of the perturbation for an update, `golden.zo.coefficient.COEFFICIENT`; the same until `done`.
    eps : Out, unsigned
        Multiple of the perturbation on the plus side; the same until `done`.
    allows_pass : In, 1
        From the next cycle on the forward engine may begin with the offsets that a walk makes: it does not overtake.
        Stays high until the next `start`.
    done : In, 1
        The walk is over, all is written; one cycle.
    """

    def __init__(self, cuts: int) -> None:
        super().__init__(
            {
                "start": Out(1),
                "walk": Out(Walk, init=Walk.CLEAR),
                "range": Out(WalkRange, init=WalkRange.ALL),
                "final": Out(1),
                "cut": Out(range(cuts + 1)),
                "gap": Out(range(MOST_GAP + 1)),
                "coefficient": Out(shape(COEFFICIENT)),
                "eps": Out(unsigned(COEFFICIENT.width - 1)),
                "allows_pass": In(1),
                "done": In(1),
            }
        )


class Issue:
    """Part of a word that is issued in a cycle: it is multiplied and added in the cycles behind.

    Parameters
    ----------
    rows : int
        Rows of deltas.

    Attributes
    ----------
    valid : 1
        A part is issued.
    word : range(rows)
        Row of the word.
    side : 1
        0 for the plus side, 1 for the minus side.
    both_sides : 1
        The word's minus side is made with its plus side.
    walk : `Walk`
    """

    def __init__(self, rows: int) -> None:
        self.valid, self.word = Signal(), Signal(range(rows), name="word")
        self.side, self.both_sides = Signal(), Signal(name="both_sides")
        self.walk = Signal(Walk)

    @property
    def makes_offsets(self) -> Value:
        """The walk makes offsets; others write deltas."""
        return self.walk[1]


class WalkRegisters:
    """Registers of a walk in progress: its words, and what it does with the generator.

    Parameters
    ----------
    rows : Rows
    cycles : int
        Cycles for the offsets of a word.
    gap : Signal
        Words of a gap, for their width.

    Attributes
    ----------
    range : `WalkRange`
        Words of the walk.
    bounds : RangeBounds
        Their rows.
    next_word, is_last : range(rows), 1
        Row of the word behind the one that is issued; that one is the last.
    spread_left, is_spreading : range(most_groups), 1
        Cycles for which a word of biases is still spread; the walk pauses meanwhile.
    rest_of_gap : 6 bits
        Words of the gap that are still to be skipped.
    is_final : 1
        The walk is the last of its sequence.
    uses_numbers : 1
        It takes words of the generator.
    returns, marks : 1
        At its end it returns to the mark, sets the mark.
    skips : 1
        A gap is behind its perturbation.
    ends : 1
        It ends in this cycle.
    """

    def __init__(self, rows: Rows, cycles: int, gap: Signal) -> None:
        self.range, self.bounds = Signal(WalkRange), RangeBounds(rows, cycles)
        self.spread_left, self.is_spreading = Signal(range(rows.most_groups)), Signal()
        self.rest_of_gap = Signal.like(gap, reset_less=True)
        self.uses_numbers, self.is_final, self.returns, self.marks = Signal(), Signal(), Signal(), Signal()
        self.next_word, self.is_last = Signal.like(self.bounds.first), Signal()
        self.ends, self.skips = Signal(), Signal()


class RangeBounds:
    """Registers of a walk's words: rows of its first and last biases and weights, and of those a pass waits for.

    Parameters
    ----------
    rows : Rows
    cycles : int
        Cycles for the offsets of a word.

    Attributes
    ----------
    first, last_bias, weights, last : range(rows)
        Rows of the first and the last bias, and of the first and the last weights.
    last_waited : range(rows)
        Row of the last word that a pass waits for.
    """

    NAMES = ("first", "last_bias", "weights", "last", "last_waited")

    def __init__(self, rows: Rows, cycles: int) -> None:
        self.rows, self.cycles = rows, cycles
        self.first, self.last_bias, self.weights, self.last, self.last_waited = (
            Signal(range(len(rows)), name=name, reset_less=True) for name in self.NAMES
        )

    def load(self, m: Module, words: Value, cut: Value) -> None:
        """Set the registers for a `WalkRange`, in the module's current condition."""
        with m.Switch(words):
            with m.Case(WalkRange.ALL):
                self._load(m, self.rows.whole)
            for number in range(2 if self.rows.cuts else 0):
                with m.Case(WalkRange(1 + number)), m.Switch(cut):
                    for cut_number, parts in enumerate(self.rows.cuts, start=1):
                        with m.Case(cut_number):
                            self._load(m, parts[number])

    def _load(self, m: Module, part: RowRange) -> None:
        m.d.sync += [
            self.first.eq(part.biases[0]),
            self.last_bias.eq(part.biases[-1]),
            self.weights.eq(part.weights[0]),
            self.last.eq(part.weights[-1]),
            self.last_waited.eq(int(part.numbers[part.words_before_pass(self.cycles) - 1])),
        ]

    def behind(self, word: Value) -> Value:
        """Row of the word behind one of the range."""
        return Mux(word == self.last_bias, self.weights, word + 1)
