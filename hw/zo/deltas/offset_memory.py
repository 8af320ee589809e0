"""Offset memory, for both perturbation signs."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.zo.rows import Rows, bias_offset_memory, offset_memories
from ...nn.interfaces import PARAMETER, Offsets
from ...primitives.ram import ram
from .perturbation_numbers import PerturbationNumbers

FOLDED_READ = 3
"""Cycles from a weight word's number to its offsets, if words share rows."""


class MinusOffsets(wiring.Signature):
    """Minus offsets of a part of a word, one cycle after the plus offsets.

    Attributes
    ----------
    follow : Out, 1
        Minus offsets come in the next cycle.
    numbers : Out, array of width Q4.12
        Offsets, in the cycle after `follow`.
    """

    def __init__(self, width: int) -> None:
        super().__init__({"follow": Out(1), "numbers": Out(data.ArrayLayout(PARAMETER, width))})


class OffsetRow(wiring.Signature):
    """Offsets of a part of a parameter word, as they are computed; no handshake.

    Parameters
    ----------
    rows, parts, width : int
        Delta rows, parts of a row, and numbers of a part.

    Attributes
    ----------
    valid : Out, 1
    word : Out, range(rows)
        Number of the row; biases come first.
    part : Out, range(parts)
        Number of the part.
    side : Out, 1
        0 for plus, 1 for minus.
    numbers : Out, array of width Q4.12
    minus : Out, `MinusOffsets`, only with several parts
        Minus offsets that follow a row's plus offsets.
    """

    def __init__(self, rows: int, parts: int, width: int) -> None:
        members = {
            "valid": Out(1),
            "word": Out(range(rows)),
            "part": Out(range(parts)),
            "side": Out(1),
            "numbers": Out(data.ArrayLayout(PARAMETER, width)),
        }
        if parts > 1:
            members["minus"] = Out(MinusOffsets(width))
        super().__init__(members)


class OffsetMemory(wiring.Component):
    """Store offset rows by word and sign; bias offsets are spread over the groups of their word.

    If words share rows (`Rows.times`), word w uses row w mod times, rotated: number j of the word is number
    (j + w - w mod times) mod n of the row.

    Parameters
    ----------
    numbers : PerturbationNumbers
        Partition of a word's numbers.
    offsets : Offsets
        Interface of the forward engine, with latency `read_latency`.

    Attributes
    ----------
    row : In, `OffsetRow`
        Offsets to store, all parts of a sign in sequence. After the last part of a bias word, the next row comes at
        least as many cycles later as the word has groups, `Rows.bias_groups`.
    offsets : In, `Offsets`
        The forward engine's addresses and signs, and the offsets read.
    """

    def __init__(self, rows: Rows, numbers: PerturbationNumbers, offsets: Offsets) -> None:
        self.rows, self.n, self.parts, self.width = rows, numbers.n, numbers.parts, numbers.width
        super().__init__({"row": In(OffsetRow(len(rows), self.parts, self.width)), "offsets": In(offsets)})

    @staticmethod
    def read_latency(rows: Rows) -> int:
        """Cycles from a weight word's number to its offsets."""
        return FOLDED_READ if rows.times else 1

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row, rows, bias_words = self.row, self.rows, len(self.rows.whole.biases)
        of_biases = row.word < bias_words
        within, folded = exact_log2(rows.weight_rows), rows.times > 0
        address = Signal(range(rows.times or len(rows.whole.weights) // rows.weight_rows))
        word = Signal(len(address) + within)
        read, turn = self._folded(m) if folded else (self.offsets.weight, None)
        # shared rows: weights also use the biases' rows
        m.d.comb += [word.eq(row.word if folded else row.word - bias_words), address.eq(word[within:])]
        weights_row = row.valid if folded else row.valid & ~of_biases
        address_before = Signal.like(address, reset_less=True)
        m.d.sync += address_before.eq(address)
        words_read = []
        memories = offset_memories(rows, self.n, self.parts)
        for cycle in range(rows.weight_rows):
            chosen = weights_row & (word[:within] == cycle)
            for part in range(self.parts):
                weights = ram(platform, memories[0 if part < self.parts - 1 else -1])
                m.submodules[f"weights{cycle}_{part}"] = weights
                into, port = weights.write_port(), weights.read_port()
                stores = chosen & (row.part == part)
                write, store_address, values = stores, Cat(address, row.side), Value.cast(row.numbers)
                if self.parts > 1:
                    # minus offsets are written a cycle late, in parallel with the next part's plus offsets
                    follows = Signal(name=f"follows{cycle}_{part}")
                    m.d.sync += follows.eq(stores & row.minus.follow)
                    write, store_address = stores | follows, Mux(follows, Cat(address_before, 1), store_address)
                    values = Mux(follows, Value.cast(row.minus.numbers), values)
                m.d.comb += [
                    into.en.eq(write),
                    into.addr.eq(store_address),
                    into.data.eq(values),
                    port.addr.eq(Cat(read, self.offsets.side)),
                ]
                words_read.append(port.data)
        numbers = Cat(words_read)
        if turn is not None:
            numbers = _turned([numbers.word_select(j, PARAMETER.width) for j in range(self.n)], turn)
        m.d.comb += Value.cast(self.offsets.numbers).eq(numbers)
        self._biases(m, platform, row.valid & of_biases)
        return m

    def _folded(self, m: Module) -> tuple[Value, Value]:
        """Row of a weight word, two cycles later, and the rotation of its numbers, three cycles later.

        `times` is 2**b - 1, so the remainder of a number is the sum of its digits in base 2**b.
        """
        times, words = self.rows.times, self.rows.words
        bits = times.bit_length()
        word, total = Signal(range(words), reset_less=True), Signal(bits + 1, reset_less=True)
        high, turn = Signal(range((words >> bits) + 1), reset_less=True), Signal(range(self.n), reset_less=True)
        wraps, row = Signal(), Signal(bits)
        m.d.sync += [
            word.eq(self.offsets.weight + len(self.rows.whole.biases)),
            total.eq(word[:bits] + word[bits:]),
            high.eq(word[bits:]),
        ]
        m.d.comb += [wraps.eq(total[-1] | total[:bits].all()), row.eq(total[:bits] + wraps)]
        turns = [times * quotient % self.n for quotient in range((words >> bits) + 2)]
        with m.Switch(high + wraps):
            for quotient, value in enumerate(turns):
                with m.Case(quotient):
                    m.d.sync += turn.eq(value)
        return row, turn

    def _biases(self, m: Module, platform: object, store: Value) -> None:
        """Write the bias offsets of a word's groups in sequence; group g starts at number ``g columns``."""
        row, columns = self.row, self.rows.columns
        group = Signal(range(self.rows.groups), reset_less=True)
        planned = bias_offset_memory(self.rows)
        m.submodules.biases = biases = ram(platform, planned, data.ArrayLayout(PARAMETER, columns))
        into, port = biases.write_port(), biases.read_port()
        turning = [Signal(PARAMETER, name=f"turning{j}", reset_less=True) for j in range(self.n)]
        side, busy = Signal(reset_less=True), Signal()
        left_groups = Signal(range(self.rows.most_groups), reset_less=True)
        m.d.comb += [
            into.en.eq(busy),
            into.addr.eq(Cat(group, side)),
            *(into.data[column].eq(turning[column % self.n]) for column in range(columns)),
            port.addr.eq(Cat(self.offsets.bias, self.offsets.bias_side)),
            self.offsets.biases.eq(port.data),
        ]
        with m.If(busy):
            m.d.sync += [group.eq(group + 1), left_groups.eq(left_groups - 1)]
            m.d.sync += [turning[j].eq(turning[(j + columns) % self.n]) for j in range(self.n)]
            with m.If(left_groups == 0):
                m.d.sync += busy.eq(0)
        with m.If(store):
            m.d.sync += [busy.eq(row.part == self.parts - 1), side.eq(row.side)]
            with m.Switch(row.word):
                for number, (first, groups) in enumerate(self.rows.bias_groups):
                    with m.Case(number):
                        m.d.sync += [group.eq(first), left_groups.eq(groups - 1)]
            for j, number in enumerate(turning):
                part, element = divmod(j, self.width)
                with m.If(row.part == part):
                    m.d.sync += number.eq(row.numbers[element])


def _turned(numbers: list[Value], turn: Value) -> Value:
    """Numbers rotated left by `turn`."""
    for step, bit in enumerate(turn):
        numbers = [Mux(bit, numbers[(j + (1 << step)) % len(numbers)], number) for j, number in enumerate(numbers)]
    return Cat(numbers)
