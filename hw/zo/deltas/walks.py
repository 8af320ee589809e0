"""Walks (passes over the delta rows): kinds, control interface, and registers of a walk in progress."""

from enum import IntEnum

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.zo.coefficient import COEFFICIENT
from ....golden.zo.rows import RowRange, Rows
from ....golden.zo.split import MOST_GAP
from ...ports import shape


class Walk(IntEnum):
    """Kinds of walks; bit 1 is set if the walk produces offsets."""

    CLEAR = 0
    """Set the deltas to 0."""
    UPDATE = 1
    """Add the perturbation, multiplied by the coefficient."""
    SIDES = 2
    """Produce plus and minus offsets of a perturbation."""
    OFFSETS = 3
    """Produce plus offsets without a perturbation."""


class WalkRange(IntEnum):
    """Range of words of a walk."""

    ALL = 0
    FIRST = 1
    """Words before the cut."""
    SECOND = 2
    """Words after the cut."""


class WalkControl(wiring.Signature):
    """Control of walks; the directions are those of the requester.

    The walks of a sequence use consecutive perturbations. At the end of the last walk the generator returns to its mark
    after `SIDES`, and sets the mark after `UPDATE`.

    Attributes
    ----------
    start : Out, 1
        Begin a walk; one cycle, must not come during a walk.
    walk : Out, `Walk`
        Kind of the walk, with `start`.
    range : Out, `WalkRange`
        Words of the walk, with `start`; `WalkRange.ALL` for a walk without a perturbation.
    final : Out, 1
        With `start`: the walk is the last of its sequence.
    cut : Out, range(cuts + 1)
        Number of the cut, from 1; stable during a command.
    gap : Out, 6 bits
        Number of generator words to skip after a perturbation of `ALL` or `SECOND`; stable during a command.
    coefficient : Out, signed
        Factor of the perturbation in an update, `golden.zo.coefficient.COEFFICIENT`; stable until `done`.
    eps : Out, unsigned
        Factor of the perturbation in plus offsets; stable until `done`.
    allows_pass : In, 1
        The forward engine may start in the next cycle, as it cannot overtake the offsets. Stays high until `start`.
    done : In, 1
        The walk is over, and its last result has been written; one cycle.
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
    """Part of a word, issued in a cycle; its product and sum follow in later cycles.

    Attributes
    ----------
    valid : 1
        A part is issued.
    word : range(rows)
        Row of the word.
    side : 1
        0 for plus, 1 for minus.
    both_sides : 1
        Minus offsets are computed together with plus offsets.
    walk : `Walk`
    """

    def __init__(self, rows: int) -> None:
        self.valid, self.word = Signal(), Signal(range(rows), name="word")
        self.side, self.both_sides = Signal(), Signal(name="both_sides")
        self.walk = Signal(Walk)

    @property
    def makes_offsets(self) -> Value:
        """High for a walk that produces offsets; other walks write deltas."""
        return self.walk[1]


class WalkRegisters:
    """Registers of a walk in progress: its words, and its use of the generator.

    Attributes
    ----------
    range, bounds : `WalkRange`, RangeBounds
        Words of the walk, and their rows.
    next_word, is_last : range(rows), 1
        Row of the next word; the issued word is the last.
    spread_left, is_spreading : range(most_groups), 1
        Cycles left of a pause, in which `OffsetMemory` writes a bias word to its groups; the walk pauses.
    rest_of_gap : 6 bits
        Generator words of the gap that are left.
    is_final : 1
        The walk is the last of its sequence.
    uses_numbers : 1
        The walk consumes generator words.
    returns, marks : 1
        At the end of the walk the generator returns to the mark, or sets the mark.
    skips : 1
        A gap follows the perturbation.
    ends : 1
        The walk ends in this cycle.
    """

    def __init__(self, rows: Rows, cycles: int, gap: Signal) -> None:
        self.range, self.bounds = Signal(WalkRange), RangeBounds(rows, cycles)
        self.spread_left, self.is_spreading = Signal(range(rows.most_groups)), Signal()
        self.rest_of_gap = Signal.like(gap, reset_less=True)
        self.uses_numbers, self.is_final, self.returns, self.marks = Signal(), Signal(), Signal(), Signal()
        self.next_word, self.is_last = Signal.like(self.bounds.first), Signal()
        self.ends, self.skips = Signal(), Signal()


class RangeBounds:
    """Registers of a walk's bounds: first and last rows of biases and weights, and the last row that a pass waits for.

    Parameters
    ----------
    cycles : int
        Cycles to compute the offsets of a word.

    Attributes
    ----------
    first, last_bias, weights, last : range(rows)
        Rows of the first and the last bias, and of the first and the last weights.
    last_waited : range(rows)
        Row of the last word with offsets that a pass needs before its start.
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
        """Row after `word` within the range."""
        return Mux(word == self.last_bias, self.weights, word + 1)
