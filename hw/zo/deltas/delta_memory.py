"""Delta memory: deltas of all parameter words."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q4_12
from ....golden.zo.coefficient import COEFFICIENT
from ....golden.zo.deltas import DELTA
from ....golden.zo.rows import Rows
from ...axi.memory_port import BEATS
from ...ports import shape
from ...primitives.adder_tree import adder_tree
from ...primitives.pipeline import delayed
from ...primitives.registers import data_register
from ...primitives.rounding import RoundSaturate
from .delta_rows import DeltaRows
from .offset_memory import OffsetRow
from .perturbation_numbers import PerturbationNumbers
from .walks import Issue, Walk, WalkControl, WalkRange, WalkRegisters


class DeltaMemory(wiring.Component):
    """Store the deltas of all words; update them, or compute offsets: ``delta + k number``.

    The n numbers of a word are processed in parts, one part a cycle; an update takes `parts` cycles a word. With
    several parts, a weight word's plus and minus offsets are computed together, also in `parts` cycles. A bias word,
    and with one part any word, takes first plus, then minus. After each sign of a bias word the walk pauses until
    `OffsetMemory` has written the offsets of all its groups.

    Parameters
    ----------
    numbers : PerturbationNumbers
        Format, latency and partition of a word's numbers.
    shared : wiring.Signature, optional
        Port for another component, see `DeltaRows`.

    Attributes
    ----------
    control : In, `WalkControl`
    word_done : Out, 1
        The generator's word is used for the last time: the generator must advance.
    valid : In, 1
        The generator offers a word; walks with numbers wait for it.
    replay : Out, 1
        With `word_done`: the generator must return to the mark; the same perturbation is used again.
    mark : Out, 1
        With `word_done`: the next word begins the next sequence of walks.
    part : Out, range(parts)
        Part of the generator's word that the walk uses.
    numbers : In, array of numbers
        Numbers of the part, `PerturbationNumbers.latency` cycles later.
    offsets : Out, `OffsetRow`
        Offsets of a part of a word.
    load, loaded, save, begin_save, saved
        As in `DeltaRows`; must not be used during a walk.
    written : Out, 1
        In this cycle `written_row` is written to part `written_part` of word `written_word`.
    written_word : Out, range(rows)
    written_part : Out, range(parts)
    written_row : Out, array of deltas
    clipped : Out, unsigned
        Number of clipped offsets, a few cycles late.
    shared : In, only if given
        Port of another component on the delta memory; must not be used while deltas are loaded or updated.
    """

    def __init__(
        self,
        rows: Rows,
        numbers: PerturbationNumbers,
        shared: wiring.Signature | None = None,
    ) -> None:
        self.rows = rows
        self.format, self.latency = numbers.format, numbers.latency
        self.n, self.parts, self.width = numbers.n, numbers.parts, numbers.width
        self.memory = DeltaRows(len(rows) * self.parts, self.width, shared)
        row = data.ArrayLayout(shape(DELTA), self.width)
        ports = {
            "control": In(WalkControl(len(rows.cuts))),
            **dict.fromkeys(("word_done", "replay", "mark"), Out(1)),
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
        issue = Issue(len(self.rows))
        self._walk(m, issue)
        self._compute(m, issue)
        return m

    @property
    def _depth(self) -> int:
        return self._total_cycles + RoundSaturate.LATENCY

    @property
    def _stored_cycles(self) -> int:
        """Cycles from the issue of a part to its last offsets; with several parts, minus offsets are a cycle late."""
        return self._depth + (self.parts > 1)

    @property
    def _total_cycles(self) -> int:
        """Cycles from the issue of a part to its sums: numbers, product, sum."""
        return self.latency + 2

    def _walk(self, m: Module, issue: Issue) -> None:
        """Issue words, signs and parts in nested order; wait while the generator returns to the mark."""
        control = self.control
        registers = WalkRegisters(self.rows, max(2, self.parts), control.gap)
        self._generator_use(m, issue, registers)
        with m.FSM():
            self._begin_states(m, issue, registers)
            self._words_state(m, issue, registers)
            self._gap_state(m, registers)
        issued = Signal()
        with m.If(control.start):
            m.d.sync += issued.eq(0)
        with m.Elif(self.word_done & (issue.word == registers.bounds.last_waited)):
            m.d.sync += issued.eq(1)
        m.d.comb += [
            control.done.eq(delayed(m, registers.ends, self._stored_cycles, "over")),
            control.allows_pass.eq(delayed(m, issued, self._stored_cycles, "issued") & issued),
        ]

    def _generator_use(self, m: Module, issue: Issue, registers: WalkRegisters) -> None:
        """Registers that say how the walk uses the generator; stable before the walk's first word."""
        sides, update = issue.walk == Walk.SIDES, issue.walk == Walk.UPDATE
        m.d.sync += [
            registers.uses_numbers.eq(sides | update),
            registers.skips.eq((sides | update) & (self.control.gap != 0) & (registers.range != WalkRange.FIRST)),
            registers.returns.eq(sides & registers.is_final),
            registers.marks.eq(update & registers.is_final),
        ]

    def _advance(self, m: Module, issue: Issue, registers: WalkRegisters) -> None:
        """Go to the next word, in the current condition.

        Timing: `is_last` starts long paths, so it is a register, and the word after the next is computed ahead.
        """
        following, bounds = registers.next_word, registers.bounds
        m.d.sync += [
            issue.word.eq(following),
            registers.is_last.eq(following == bounds.last),
            following.eq(bounds.behind(following)),
        ]
        if self.parts > 1:
            of_weights = following >= len(self.rows.bias_groups)
            m.d.sync += issue.both_sides.eq((issue.walk == Walk.SIDES) & of_weights)

    def _begin_states(self, m: Module, issue: Issue, registers: WalkRegisters) -> None:
        """Accept a walk, and load the bounds of its words."""
        control = self.control
        with m.State("IDLE"):
            m.d.sync += [issue.side.eq(0), self.part.eq(0), registers.is_spreading.eq(0)]
            m.d.sync += [issue.walk.eq(control.walk), registers.range.eq(control.range)]
            m.d.sync += registers.is_final.eq(control.final)
            with m.If(control.start):
                m.next = "RANGE"
        with m.State("RANGE"):
            registers.bounds.load(m, registers.range, control.cut)
            m.next = "FIRST"
        with m.State("FIRST"):
            m.d.sync += [registers.next_word.eq(registers.bounds.first), registers.rest_of_gap.eq(control.gap)]
            m.next = "ADVANCE"
        with m.State("ADVANCE"):
            self._advance(m, issue, registers)
            m.next = "WORDS"

    def _words_state(self, m: Module, issue: Issue, registers: WalkRegisters) -> None:
        """Issue a part every cycle, except while biases are spread or the generator has no word."""
        sides, part = issue.walk == Walk.SIDES, self.part
        last_part, last_side = part == self.parts - 1, issue.side | issue.both_sides | ~sides
        spread_left = registers.spread_left
        with m.State("WORDS"):
            with m.If(registers.is_spreading):
                m.d.sync += [spread_left.eq(spread_left - 1), registers.is_spreading.eq(spread_left != 1)]
            with m.Elif(self.valid | ~registers.uses_numbers):
                m.d.comb += issue.valid.eq(1)
                m.d.sync += part.eq(Mux(last_part, 0, part + 1))
                with m.If(last_part):
                    # `OffsetMemory` writes a group of biases a cycle
                    cycles = _spread_cycles(m, self.rows, issue.word)
                    m.d.sync += [issue.side.eq(sides & ~issue.side & ~issue.both_sides), spread_left.eq(cycles)]
                    m.d.sync += registers.is_spreading.eq(issue.makes_offsets & (cycles != 0))
                with m.If(last_part & last_side):
                    m.d.comb += self.word_done.eq(registers.uses_numbers)
                    self._advance(m, issue, registers)
                    with m.If(registers.is_last):
                        self._end_words(m, registers)

    def _end_words(self, m: Module, registers: WalkRegisters) -> None:
        """After the last word, end the walk, or first skip the gap if the generator does not return to the mark."""
        m.d.comb += [
            self.replay.eq(registers.returns),
            self.mark.eq(registers.marks & ~registers.skips),
            registers.ends.eq(registers.returns | ~registers.skips),
        ]
        m.next = "IDLE"
        with m.If(registers.skips & ~registers.returns):
            m.next = "REST"

    def _gap_state(self, m: Module, registers: WalkRegisters) -> None:
        rest_of_gap = registers.rest_of_gap
        with m.State("REST"), m.If(self.valid):
            m.d.comb += [
                self.word_done.eq(1),
                self.mark.eq((rest_of_gap == 1) & registers.marks),
                registers.ends.eq(rest_of_gap == 1),
            ]
            m.d.sync += rest_of_gap.eq(rest_of_gap - 1)
            with m.If(rest_of_gap == 1):
                m.next = "IDLE"

    def _compute(self, m: Module, issue: Issue) -> None:
        """Multiply and add; write the sums back, or round them to offsets."""
        control, walk, total_cycles = self.control, issue.walk, self._total_cycles
        coefficient, factor = Signal(shape(COEFFICIENT)), Signal(shape(COEFFICIENT), reset_less=True)
        with m.If(walk == Walk.UPDATE):
            m.d.comb += coefficient.eq(control.coefficient)
        with m.Elif(walk == Walk.SIDES):
            m.d.comb += coefficient.eq(Mux(issue.side, -control.eps, control.eps))
        m.d.sync += factor.eq(delayed(m, coefficient, self.latency - 1, "early_factor", reset_less=True))
        m.d.comb += [
            self.written.eq(delayed(m, issue.valid & ~issue.makes_offsets, total_cycles, "store")),
            self.written_word.eq(delayed(m, issue.word, total_cycles, "written_word", reset_less=True)),
            self.written_part.eq(delayed(m, self.part, total_cycles, "written_part", reset_less=True)),
        ]
        deltas = self._rows(m, issue.word, issue.valid & (walk == Walk.CLEAR))
        offsets_valid = delayed(m, issue.valid & issue.makes_offsets, self._depth, "made_offset")
        minus_follows = delayed(m, issue.valid & issue.both_sides, self._depth, "opposed")
        clips = []
        minus: Any = data_register(m, self.offsets.minus.numbers, "minus_numbers") if self.parts > 1 else []

        def offset(total: Signal, name: str, counts: Value) -> Value:
            rounding = RoundSaturate(len(total), DELTA.fraction - Q4_12.fraction, Q4_12)
            m.submodules[name] = rounding
            m.d.comb += rounding.i.eq(total)
            clips.append(Cat(rounding.clipped & counts, 0).as_signed())
            return rounding.o

        for j in range(self.width):
            product = Signal(signed(COEFFICIENT.width + self.format.width), name=f"product{j}", reset_less=True)
            # exact for offsets; an update keeps the low bits, so it wraps
            total = Signal(signed(DELTA.width + 2), name=f"total{j}", reset_less=True)
            m.d.sync += [product.eq(self.numbers[j] * factor), total.eq(product + deltas[j])]
            m.d.comb += [
                self.written_row[j].eq(total[: DELTA.width].as_signed()),
                self.offsets.numbers[j].eq(offset(total, f"rounding{j}", offsets_valid)),
            ]
            if self.parts > 1:
                opposite = Signal.like(total, name=f"opposite{j}")
                m.d.sync += [
                    opposite.eq(deltas[j] - product),
                    minus[j].eq(offset(opposite, f"rounding_minus{j}", minus_follows)),
                ]
        m.d.comb += [
            self.offsets.valid.eq(offsets_valid),
            self.offsets.word.eq(delayed(m, issue.word, self._depth, "offset_word", reset_less=True)),
            self.offsets.part.eq(delayed(m, self.part, self._depth, "offset_part", reset_less=True)),
            self.offsets.side.eq(delayed(m, issue.side, self._depth, "offset_side", reset_less=True)),
        ]
        if self.parts > 1:
            m.d.comb += self.offsets.minus.follow.eq(minus_follows)
        clips += [Cat(0, 0).as_signed()] * ((1 << (len(clips) - 1).bit_length()) - len(clips))
        m.d.comb += self.clipped.eq(adder_tree(m, clips, "clipped", reset_less=False))

    def _rows(self, m: Module, word: Signal, clear: Value) -> data.View:
        """Deltas of a part, or 0, aligned with its products."""
        m.submodules.rows = rows = self.memory
        m.d.comb += [
            rows.address.eq(delayed(m, word * self.parts + self.part, self.latency, "read_row", reset_less=True)),
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


def _spread_cycles(m: Module, rows: Rows, word: Value) -> Value:
    """Extra cycles to write a bias word to its groups: their number minus 1; 0 for weights."""
    wait_cycles = Signal(range(rows.most_groups))
    with m.Switch(word):
        for row, groups in enumerate(rows.bias_groups):
            with m.Case(row):
                m.d.comb += wait_cycles.eq(groups.size - 1)
    return wait_cycles
