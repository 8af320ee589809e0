"""Delta memory: the deltas of every word of parameters, their update, and the offsets that are made of them."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q4_12
from ....golden.zo.coefficient import COEFFICIENT
from ....golden.zo.deltas import DELTA
from ....golden.zo.rows import RowRange, Rows
from ....golden.zo.split import MOST_GAP
from ...axi.memory_port import BEATS
from ...ports import shape
from ...primitives.adder_tree import adder_tree
from ...primitives.pipeline import delayed
from ...primitives.rounding import RoundSaturate
from .delta_rows import DeltaRows
from .offset_memory import OffsetRow
from .perturbation_numbers import PerturbationNumbers


class Walk(IntEnum):
    """Kinds of walks over all words."""

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
    ahead : In, 1
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
                "ahead": In(1),
                "done": In(1),
            }
        )


class DeltaMemory(wiring.Component):
    """Deltas of every word, and multipliers: ``delta + k number`` updates a delta or makes an offset.

    The n numbers of a word are taken in parts, one a cycle: an update takes `parts` cycles a word. With several parts
    the offsets of both sides of a word of weights take no more; those of biases, and of all words with one part, are
    made one side after the other. After each side of a word of biases there is a pause, in which they are spread.

    Parameters
    ----------
    rows : Rows
    numbers : PerturbationNumbers
        Their format, latency, and how they are divided into parts.
    style, shared : str, wiring.Signature
        Kind of the memory of the deltas, and port for another component, see `DeltaRows`.

    Attributes
    ----------
    control : In, `WalkControl`
    word : Out, 1
        A word of the generator is used for the last time in this cycle: it must go on to the next.
    valid : In, 1
        A word of the generator is on offer; walks that need one wait for it.
    replay : Out, 1
        With `word`: return to the mark, as the same perturbation is needed again.
    mark : Out, 1
        With `word`: the next word begins the next sequence of walks.
    part : Out, range(parts)
        Which numbers of the word on offer are used.
    numbers : In, array of numbers
        Those numbers, `PerturbationNumbers.latency` cycles later.
    offsets : Out, `OffsetRow`
        Offsets of a part of a word.
    load : In stream of beats
        The image of all words, again and again; always ready, only while no walk is in progress.
    loaded : Out, 1
        An image's last beat is there, for one cycle.
    save : Out stream of beats
        The image of all words, once after each `begin_save`.
    begin_save : In, 1
        One cycle, only while no walk is in progress.
    saved : Out, 1
        An image's last beat is taken; one cycle.
    written : Out, 1
        Deltas change in this cycle: part `written_part` of word `written_word` becomes `written_row`.
    written_word : Out, range(rows)
    written_part : Out, range(parts)
    written_row : Out, array of deltas
    clipped : Out, unsigned
        Number of offsets that were clipped; late by a few cycles.
    shared : In, only with it
        Rows of another component in the memory of the deltas; not used while these are loaded or updated.
    """

    def __init__(
        self,
        rows: Rows,
        numbers: PerturbationNumbers,
        style: str = "block",
        shared: wiring.Signature | None = None,
    ) -> None:
        self.rows = rows
        self.format, self.latency = numbers.format, numbers.latency
        self.n, self.parts, self.width = numbers.n, numbers.parts, numbers.width
        self.memory = DeltaRows(len(rows) * self.parts, self.width, style, shared)
        row = data.ArrayLayout(shape(DELTA), self.width)
        ports = {
            "control": In(WalkControl(len(rows.cuts))),
            **dict.fromkeys(("word", "replay", "mark"), Out(1)),
            "valid": In(1),
            "part": Out(range(self.parts)),
            "numbers": In(data.ArrayLayout(shape(self.format), self.width)),
            "offsets": Out(OffsetRow(len(rows), self.parts, self.width)),
            "load": In(BEATS),
            "loaded": Out(1),
            "save": Out(BEATS),
            **dict.fromkeys(("begin_save",), In(1)),
            "saved": Out(1),
            "written": Out(1),
            "written_word": Out(range(len(rows))),
            "written_part": Out(range(self.parts)),
            "written_row": Out(row),
            "clipped": Out(range(self.width * (1 + (self.parts > 1)) + 1)),
        }
        if shared:
            ports["shared"] = In(shared)
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        issue, word = Signal(), Signal(range(len(self.rows)))
        # side of a word, whether its other side is made with it, kind of the walk
        side, both = Signal(), Signal()
        walk = Signal(Walk)
        self._walk(m, issue, word, side, both, walk)
        self._compute(m, issue, word, side, both, walk)
        return m

    @property
    def _depth(self) -> int:
        """Cycles from the issue of a part to its offsets."""
        return self._total_cycles + RoundSaturate.LATENCY

    @property
    def _stored_cycles(self) -> int:
        """Cycles from the issue of a part to the last of its offsets: those of a second side are a cycle late."""
        return self._depth + (self.parts > 1)

    @property
    def _total_cycles(self) -> int:
        """Cycles from the issue of a part to its sums: numbers, product, sum."""
        return self.latency + 2

    def _walk(self, m: Module, issue: Signal, word: Signal, side: Signal, both: Signal, walk: Signal) -> None:
        """Issue words, of each its sides, of each its parts; wait for a generator that returns to the mark."""
        rows, control, part = self.rows, self.control, self.part
        words, ranges = Signal(WalkRange), _Ranges(rows, max(2, self.parts))
        wait, waiting, rest = Signal(range(rows.most_groups)), Signal(), Signal.like(control.gap)
        sides, update = walk == Walk.SIDES, walk == Walk.UPDATE
        uses, final, returns, marks = Signal(), Signal(), Signal(), Signal()
        last_part, last_side = part == self.parts - 1, side | both | ~sides
        following, last_word, over, skips = Signal.like(word), Signal(), Signal(), Signal()

        def advance(m: Module) -> None:
            # the word behind is found ahead of time, as whether it is the last one is at the beginning of long paths
            m.d.sync += [
                word.eq(following),
                last_word.eq(following == ranges.last),
                following.eq(Mux(following == ranges.last_bias, ranges.weights, following + 1)),
            ]
            if self.parts > 1:
                m.d.sync += both.eq(sides & (following >= len(rows.bias_groups)))

        # registers: a walk begins a few cycles after its start
        m.d.sync += [
            uses.eq(sides | update),
            skips.eq((sides | update) & (control.gap != 0) & (words != WalkRange.FIRST)),
            returns.eq(sides & final),
            marks.eq(update & final),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [side.eq(0), part.eq(0), waiting.eq(0)]
                m.d.sync += [walk.eq(control.walk), words.eq(control.range), final.eq(control.final)]
                with m.If(control.start):
                    m.next = "RANGE"
            with m.State("RANGE"):
                ranges.load(m, words, control.cut)
                m.next = "FIRST"
            with m.State("FIRST"):
                m.d.sync += [following.eq(ranges.first), rest.eq(control.gap)]
                m.next = "ADVANCE"
            with m.State("ADVANCE"):
                advance(m)
                m.next = "WORDS"
            with m.State("WORDS"):
                with m.If(waiting):
                    m.d.sync += [wait.eq(wait - 1), waiting.eq(wait != 1)]
                with m.Elif(self.valid | ~uses):
                    m.d.comb += issue.eq(1)
                    m.d.sync += part.eq(Mux(last_part, 0, part + 1))
                    with m.If(last_part):
                        # biases of a word are spread one group a cycle
                        waits = _waits(m, rows, word)
                        m.d.sync += [side.eq(sides & ~side & ~both), wait.eq(waits), waiting.eq(walk[1] & (waits != 0))]
                    with m.If(last_part & last_side):
                        m.d.comb += self.word.eq(uses)
                        advance(m)
                        with m.If(last_word):
                            # the generator stays where it returns to the mark anyway
                            m.d.comb += [
                                self.replay.eq(returns),
                                self.mark.eq(marks & ~skips),
                                over.eq(returns | ~skips),
                            ]
                            m.next = "IDLE"
                            with m.If(skips & ~returns):
                                m.next = "REST"
            with m.State("REST"), m.If(self.valid):
                m.d.comb += [self.word.eq(1), self.mark.eq((rest == 1) & marks), over.eq(rest == 1)]
                m.d.sync += rest.eq(rest - 1)
                with m.If(rest == 1):
                    m.next = "IDLE"
        issued = Signal()
        with m.If(control.start):
            m.d.sync += issued.eq(0)
        with m.Elif(self.word & (word == ranges.lead)):
            m.d.sync += issued.eq(1)
        m.d.comb += [
            control.done.eq(delayed(m, over, self._stored_cycles, "over")),
            control.ahead.eq(delayed(m, issued, self._stored_cycles, "issued") & issued),
        ]

    def _compute(self, m: Module, issue: Signal, word: Signal, side: Signal, both: Signal, walk: Signal) -> None:
        """Multiply and add: the sums go back into the memory, or are rounded to offsets."""
        control, late = self.control, self._total_cycles
        # k is beside the numbers
        chosen, factor = Signal(shape(COEFFICIENT)), Signal(shape(COEFFICIENT))
        with m.If(walk == Walk.UPDATE):
            m.d.comb += chosen.eq(control.coefficient)
        with m.Elif(walk == Walk.SIDES):
            m.d.comb += chosen.eq(Mux(side, -control.eps, control.eps))
        m.d.sync += factor.eq(delayed(m, chosen, self.latency - 1, "early_factor"))
        m.d.comb += [
            self.written.eq(delayed(m, issue & ~walk[1], late, "store")),
            self.written_word.eq(delayed(m, word, late, "written_word")),
            self.written_part.eq(delayed(m, self.part, late, "written_part")),
        ]
        found = self._rows(m, word, issue & (walk == Walk.CLEAR))
        made = delayed(m, issue & walk[1], self._depth, "made")
        opposed = delayed(m, issue & both, self._depth, "opposed")
        clips = []

        def offset(total: Signal, name: str, counts: Value) -> Value:
            rounding = RoundSaturate(len(total), DELTA.fraction - Q4_12.fraction, Q4_12)
            m.submodules[name] = rounding
            m.d.comb += rounding.i.eq(total)
            clips.append(Cat(rounding.clipped & counts, 0).as_signed())
            return rounding.o

        for j in range(self.width):
            product = Signal(signed(COEFFICIENT.width + self.format.width), name=f"product{j}")
            # an offset's sum is exact, an update wraps
            total = Signal(signed(DELTA.width + 2), name=f"total{j}")
            m.d.sync += [product.eq(self.numbers[j] * factor), total.eq(product + found[j])]
            m.d.comb += [
                self.written_row[j].eq(total[: DELTA.width].as_signed()),
                self.offsets.numbers[j].eq(offset(total, f"rounding{j}", made)),
            ]
            if self.parts > 1:
                opposite = Signal.like(total, name=f"opposite{j}")
                m.d.sync += [
                    opposite.eq(found[j] - product),
                    self.offsets.minus.numbers[j].eq(offset(opposite, f"rounding_minus{j}", opposed)),
                ]
        m.d.comb += [
            self.offsets.valid.eq(made),
            self.offsets.word.eq(delayed(m, word, self._depth, "offset_word")),
            self.offsets.part.eq(delayed(m, self.part, self._depth, "offset_part")),
            self.offsets.side.eq(delayed(m, side, self._depth, "offset_side")),
        ]
        if self.parts > 1:
            m.d.comb += self.offsets.minus.follow.eq(opposed)
        clips += [Cat(0, 0).as_signed()] * ((1 << (len(clips) - 1).bit_length()) - len(clips))
        m.d.comb += self.clipped.eq(adder_tree(m, clips, "clipped"))

    def _rows(self, m: Module, word: Signal, clear: Value) -> data.View:
        """The deltas of a part as its products are there, or 0."""
        m.submodules.rows = rows = self.memory
        m.d.comb += [
            rows.address.eq(delayed(m, word * self.parts + self.part, self.latency, "read_row")),
            rows.clear.eq(delayed(m, clear, self.latency, "clear")),
            rows.write.eq(self.written),
            rows.write_address.eq(self.written_word * self.parts + self.written_part),
            rows.write_row.eq(self.written_row),
            rows.begin_save.eq(self.begin_save),
            self.loaded.eq(rows.loaded),
            self.saved.eq(rows.saved),
        ]
        wiring.connect(m, wiring.flipped(self.load), rows.load)
        wiring.connect(m, rows.save, wiring.flipped(self.save))
        if rows.shares:
            wiring.connect(m, wiring.flipped(self.shared), rows.shared)
        return rows.row


class _Ranges:
    """Registers of a walk's words: the rows of its first and last biases and weights, and of those it is ahead with.

    Parameters
    ----------
    rows : Rows
    cycles : int
        Cycles for the offsets of a word.
    """

    NAMES = ("first", "last_bias", "weights", "last", "lead")

    def __init__(self, rows: Rows, cycles: int) -> None:
        self.rows, self.cycles = rows, cycles
        self.first, self.last_bias, self.weights, self.last, self.lead = (
            Signal(range(len(rows)), name=name) for name in self.NAMES
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
            self.lead.eq(int(part.numbers[part.lead(self.cycles) - 1])),
        ]


def _waits(m: Module, rows: Rows, word: Value) -> Value:
    """Cycles that a word of biases takes to be spread behind the first one: its groups less one; 0 for weights."""
    waits = Signal(range(rows.most_groups))
    with m.Switch(word):
        for row, groups in enumerate(rows.bias_groups):
            with m.Case(row):
                m.d.comb += waits.eq(groups.size - 1)
    return waits
