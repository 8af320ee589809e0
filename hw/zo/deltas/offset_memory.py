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
"""Cycles from the address `offsets.weight` to the offsets, if words share rows."""


class MinusOffsets(wiring.Signature):
    """Minus offsets of a part of a word, one cycle later than the plus offsets.

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
        Address of the word's delta row; biases come first.
    part : Out, range(parts)
        Number of the part.
    side : Out, 1
        0 for plus, 1 for minus.
    numbers : Out, array of width Q4.12
    minus : Out, `MinusOffsets`, only with several parts
        Minus offsets of the same part.
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
    """Store offsets of both perturbation signs: of weights by row, of biases by group of output channels.

    If words share rows, with p = `Rows.period`, word w uses row r = w mod p, rotated: number j of the word is number (j
    + w - r) mod n of the row.

    Parameters
    ----------
    numbers : PerturbationNumbers
        Partition of a word's numbers.
    offsets : Offsets
        Interface of the forward engine, with latency `read_latency`.

    Attributes
    ----------
    row : In, `OffsetRow`
        Offsets to store, all parts of a sign in sequence. After the last part of a row for g groups of biases
        (`Rows.bias_groups`), the next row comes at least g cycles later.
    offsets : In, `Offsets`
        The forward engine's addresses and signs, and the offsets read.
    """

    def __init__(self, rows: Rows, numbers: PerturbationNumbers, offsets: Offsets) -> None:
        self.rows, self.n, self.parts, self.width = rows, numbers.n, numbers.parts, numbers.width
        super().__init__({"row": In(OffsetRow(len(rows), self.parts, self.width)), "offsets": In(offsets)})

    @staticmethod
    def read_latency(rows: Rows) -> int:
        """Cycles from the address `offsets.weight` to the offsets."""
        return FOLDED_READ if rows.period else 1

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row, rows, bias_words = self.row, self.rows, len(self.rows.whole.biases)
        of_biases = row.word < bias_words
        bank_bits, folded = exact_log2(rows.weight_rows), rows.period > 0
        address = Signal(range(rows.period or len(rows.whole.weights) // rows.weight_rows))
        weight_row = Signal(len(address) + bank_bits)
        read, rotation = self._folded(m) if folded else (self.offsets.weight, None)
        # with shared rows, weights also use the rows of bias words, so every row is stored
        m.d.comb += [weight_row.eq(row.word if folded else row.word - bias_words), address.eq(weight_row[bank_bits:])]
        weights_row = row.valid if folded else row.valid & ~of_biases
        previous_address = Signal.like(address, reset_less=True)
        m.d.sync += previous_address.eq(address)
        read_parts = []
        memories = offset_memories(rows, self.n, self.parts)
        for bank in range(rows.weight_rows):
            chosen = weights_row & (weight_row[:bank_bits] == bank)
            for part in range(self.parts):
                weights = ram(platform, memories[0 if part < self.parts - 1 else -1])
                m.submodules[f"weights{bank}_{part}"] = weights
                write_port, read_port = weights.write_port(), weights.read_port()
                stores = chosen & (row.part == part)
                write, store_address, values = stores, Cat(address, row.side), Value.cast(row.numbers)
                if self.parts > 1:
                    # minus offsets are written a cycle late, while another memory takes the next part's plus offsets
                    follows = Signal(name=f"follows{bank}_{part}")
                    m.d.sync += follows.eq(stores & row.minus.follow)
                    write, store_address = stores | follows, Mux(follows, Cat(previous_address, 1), store_address)
                    values = Mux(follows, Value.cast(row.minus.numbers), values)
                m.d.comb += [
                    write_port.en.eq(write),
                    write_port.addr.eq(store_address),
                    write_port.data.eq(values),
                    read_port.addr.eq(Cat(read, self.offsets.side)),
                ]
                read_parts.append(read_port.data)
        numbers = Cat(read_parts)
        if rotation is not None:
            numbers = _rotated([numbers.word_select(j, PARAMETER.width) for j in range(self.n)], rotation)
        m.d.comb += Value.cast(self.offsets.numbers).eq(numbers)
        self._biases(m, platform, row.valid & of_biases)
        return m

    def _folded(self, m: Module) -> tuple[Value, Value]:
        """Row of the word at `offsets.weight`, two cycles later, and the rotation of its numbers, three cycles later.

        Modulo the period, 2**b - 1, a word's number equals the sum of its two digits in base 2**b.
        """
        period, words = self.rows.period, self.rows.words
        bits = period.bit_length()
        word, total = Signal(range(words), reset_less=True), Signal(bits + 1, reset_less=True)
        high, rotation = Signal(range((words >> bits) + 1), reset_less=True), Signal(range(self.n), reset_less=True)
        wraps, row = Signal(), Signal(bits)
        m.d.sync += [
            word.eq(self.offsets.weight + len(self.rows.whole.biases)),
            total.eq(word[:bits] + word[bits:]),
            high.eq(word[bits:]),
        ]
        m.d.comb += [wraps.eq(total[-1] | total[:bits].all()), row.eq(total[:bits] + wraps)]
        rotations = [period * quotient % self.n for quotient in range((words >> bits) + 2)]
        with m.Switch(high + wraps):
            for quotient, value in enumerate(rotations):
                with m.Case(quotient):
                    m.d.sync += rotation.eq(value)
        return row, rotation

    def _biases(self, m: Module, platform: object, store: Value) -> None:
        """Write a row's bias offsets, a group a cycle: group i of the row begins at number ``i columns`` of the row."""
        row, columns = self.row, self.rows.columns
        group = Signal(range(self.rows.groups), reset_less=True)
        planned = bias_offset_memory(self.rows)
        m.submodules.biases = biases = ram(platform, planned, data.ArrayLayout(PARAMETER, columns))
        write_port, read_port = biases.write_port(), biases.read_port()
        rotating = [Signal(PARAMETER, name=f"rotating{j}", reset_less=True) for j in range(self.n)]
        side, busy = Signal(reset_less=True), Signal()
        groups_left = Signal(range(self.rows.most_groups), reset_less=True)
        m.d.comb += [
            write_port.en.eq(busy),
            write_port.addr.eq(Cat(group, side)),
            *(write_port.data[column].eq(rotating[column % self.n]) for column in range(columns)),
            read_port.addr.eq(Cat(self.offsets.bias, self.offsets.bias_side)),
            self.offsets.biases.eq(read_port.data),
        ]
        with m.If(busy):
            m.d.sync += [group.eq(group + 1), groups_left.eq(groups_left - 1)]
            m.d.sync += [rotating[j].eq(rotating[(j + columns) % self.n]) for j in range(self.n)]
            with m.If(groups_left == 0):
                m.d.sync += busy.eq(0)
        with m.If(store):
            m.d.sync += [busy.eq(row.part == self.parts - 1), side.eq(row.side)]
            with m.Switch(row.word):
                for number, (first, groups) in enumerate(self.rows.bias_groups):
                    with m.Case(number):
                        m.d.sync += [group.eq(first), groups_left.eq(groups - 1)]
            for j, number in enumerate(rotating):
                part, element = divmod(j, self.width)
                with m.If(row.part == part):
                    m.d.sync += number.eq(row.numbers[element])


def _rotated(numbers: list[Value], rotation: Value) -> Value:
    """Numbers rotated left by `rotation` places."""
    for step, bit in enumerate(rotation):
        numbers = [Mux(bit, numbers[(j + (1 << step)) % len(numbers)], number) for j, number in enumerate(numbers)]
    return Cat(numbers)
