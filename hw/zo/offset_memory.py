"""Offset memory: the numbers that a perturbation adds to the parameters of each word, on both of its sides."""

from amaranth.hdl import Cat, Module, Signal, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.zo.mapping import PerturbationMapping
from ..nn.interfaces import PARAMETER, Offsets
from .perturbation_numbers import PerturbationNumbers

_SHALLOW = 128
"""Largest depth of the biases' memory that is not worth block RAM."""


class OffsetRow(wiring.Signature):
    """Offsets of a part of a word of parameters, as they are made; no handshake.

    Parameters
    ----------
    words, parts, width : int
        Words of a perturbation, parts of each, and numbers of a part.

    Attributes
    ----------
    valid : Out, 1
    word : Out, range(words)
        Number of the word: those of the biases come first.
    part : Out, range(parts)
        Number of the part.
    side : Out, 1
        0 for the plus side, 1 for the minus side.
    numbers : Out, array of width Q4.12
    """

    def __init__(self, words: int, parts: int, width: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "word": Out(range(words)),
                "part": Out(range(parts)),
                "side": Out(1),
                "numbers": Out(data.ArrayLayout(PARAMETER, width)),
            }
        )


class OffsetMemory(wiring.Component):
    """Rows of offsets by word and side; those of the biases are spread over the groups that share a word.

    Parameters
    ----------
    mapping : PerturbationMapping
    numbers : PerturbationNumbers
        How the numbers of a word are divided into parts.

    Attributes
    ----------
    row : In, `OffsetRow`
        Offsets to store, all parts of a side one after the other. After the last part of a word of biases the next
        one comes as many cycles later as the word has groups, `PerturbationMapping.bias_rows`, at the earliest.
    side : In, 1
        Side to read.
    offsets : In, `Offsets`
        The forward engine, from which the addresses come.
    """

    def __init__(self, mapping: PerturbationMapping, numbers: PerturbationNumbers) -> None:
        self.mapping, self.n, self.parts, self.width = mapping, numbers.n, numbers.parts, numbers.width
        self.interface = Offsets(mapping.forward, self.n, mapping.cycles)
        super().__init__(
            {
                "row": In(OffsetRow(mapping.words, self.parts, self.width)),
                "side": In(1),
                "offsets": In(self.interface),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row, bias_words, cycles = self.row, self.mapping.bias_words, self.mapping.cycles
        of_biases = row.word < bias_words
        within = exact_log2(cycles)
        address = Signal(range(self.mapping.forward.weight_words))
        word = Signal(len(address) + within)
        m.d.comb += [word.eq(row.word - bias_words), address.eq(word[within:])]
        found = []
        for cycle in range(cycles):
            chosen = row.valid & ~of_biases & (word[:within] == cycle)
            for part in range(self.parts):
                count = min(self.width, self.n - part * self.width)
                weights = memory.Memory(
                    shape=unsigned(count * PARAMETER.width),
                    depth=2 << len(address),
                    init=[],
                    attrs={"ram_style": "block"},
                )
                m.submodules[f"weights{cycle}_{part}"] = weights
                into, port = weights.write_port(), weights.read_port()
                m.d.comb += [
                    into.en.eq(chosen & (row.part == part)),
                    into.addr.eq(Cat(address, row.side)),
                    into.data.eq(Value.cast(row.numbers)),
                    port.addr.eq(Cat(self.offsets.weight, self.side)),
                ]
                found.append(port.data)
        m.d.comb += Value.cast(self.offsets.numbers).eq(Cat(found))
        self._biases(m, row.valid & of_biases)
        return m

    def _biases(self, m: Module, store: Value) -> None:
        """Write the offsets of a word's groups one after the other: group g has numbers from ``g columns`` on."""
        forward, row, columns = self.mapping.forward, self.row, self.mapping.forward.columns
        group = Signal(range(forward.groups))
        depth = 2 << len(group)
        m.submodules.biases = biases = memory.Memory(
            shape=data.ArrayLayout(PARAMETER, columns),
            depth=depth,
            init=[],
            attrs={"ram_style": "block" if depth > _SHALLOW else "distributed"},
        )
        into, port = biases.write_port(), biases.read_port()
        turning, side, busy = [Signal(PARAMETER, name=f"turning{j}") for j in range(self.n)], Signal(), Signal()
        left = Signal(range(self.mapping.bias_groups))
        m.d.comb += [
            into.en.eq(busy),
            into.addr.eq(Cat(group, side)),
            *(into.data[column].eq(turning[column % self.n]) for column in range(columns)),
            port.addr.eq(Cat(self.offsets.bias, self.side)),
            self.offsets.biases.eq(port.data),
        ]
        with m.If(busy):
            m.d.sync += [group.eq(group + 1), left.eq(left - 1)]
            m.d.sync += [turning[j].eq(turning[(j + columns) % self.n]) for j in range(self.n)]
            with m.If(left == 0):
                m.d.sync += busy.eq(0)
        with m.If(store):
            m.d.sync += [busy.eq(row.part == self.parts - 1), side.eq(row.side)]
            with m.Switch(row.word):
                for number, (first, groups) in enumerate(self.mapping.bias_rows):
                    with m.Case(number):
                        m.d.sync += [group.eq(first), left.eq(groups - 1)]
            for j, number in enumerate(turning):
                part, own = divmod(j, self.width)
                with m.If(row.part == part):
                    m.d.sync += number.eq(row.numbers[own])
