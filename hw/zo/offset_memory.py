"""Offset memory: what a perturbation adds to the parameters of each word, on both of its sides."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.zo.mapping import PerturbationMapping
from ..nn.interfaces import PARAMETER, Offsets


class OffsetRow(wiring.Signature):
    """Offsets of a word of parameters, as they are made; no handshake.

    Parameters
    ----------
    words, numbers : int
        Words of a perturbation, and numbers of each.

    Attributes
    ----------
    valid : Out, 1
    word : Out, range(words)
        Number of the word: those of the biases come first.
    side : Out, 1
        0 for the plus side, 1 for the minus side.
    numbers : Out, array of n Q4.12
    """

    def __init__(self, words: int, numbers: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "word": Out(range(words)),
                "side": Out(1),
                "numbers": Out(data.ArrayLayout(PARAMETER, numbers)),
            }
        )


class OffsetMemory(wiring.Component):
    """Rows of offsets by word and side; those of the biases are spread over the groups that share a word.

    Parameters
    ----------
    mapping : PerturbationMapping
    numbers : int
        Numbers of a row.

    Attributes
    ----------
    row : In, `OffsetRow`
        A row to store. After a row of biases the next one comes `lanes` cycles later at the earliest.
    side : In, 1
        Side to read.
    offsets : In, `Offsets`
        The forward engine, from which the addresses come.
    """

    def __init__(self, mapping: PerturbationMapping, numbers: int) -> None:
        self.mapping, self.numbers = mapping, numbers
        super().__init__(
            {
                "row": In(OffsetRow(mapping.words, numbers)),
                "side": In(1),
                "offsets": In(Offsets(mapping.forward, numbers)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        forward, row, bias_words = self.mapping.forward, self.row, self.mapping.bias_words
        of_biases = row.word < bias_words
        address = Signal(range(forward.weight_words))
        m.submodules.weights = weights = memory.Memory(
            shape=row.numbers.shape(), depth=2 << len(address), init=[], attrs={"ram_style": "block"}
        )
        into, port = weights.write_port(), weights.read_port()
        m.d.comb += [
            address.eq(row.word - bias_words),
            into.en.eq(row.valid & ~of_biases),
            into.addr.eq(Cat(address, row.side)),
            into.data.eq(row.numbers),
            port.addr.eq(Cat(self.offsets.weight, self.side)),
            self.offsets.numbers.eq(port.data),
        ]
        self._biases(m, row.valid & of_biases)
        return m

    def _biases(self, m: Module, store: Signal) -> None:
        """Write the offsets of a row's groups one after the other: group g has numbers from ``g columns`` on."""
        forward, row, columns = self.mapping.forward, self.row, self.mapping.forward.columns
        group = Signal(range(forward.groups))
        m.submodules.biases = biases = memory.Memory(
            shape=data.ArrayLayout(PARAMETER, columns), depth=2 << len(group), init=[], attrs={"ram_style": "block"}
        )
        into, port = biases.write_port(), biases.read_port()
        turning, side, busy = Signal.like(row.numbers), Signal(), Signal()
        m.d.comb += [
            into.en.eq(busy),
            into.addr.eq(Cat(group, side)),
            *(into.data[column].eq(turning[column % self.numbers]) for column in range(columns)),
            port.addr.eq(Cat(self.offsets.bias, self.side)),
            self.offsets.biases.eq(port.data),
        ]
        in_row = Signal(range(forward.lanes))
        with m.If(busy):
            m.d.sync += [group.eq(group + 1), in_row.eq(in_row + 1)]
            m.d.sync += [turning[j].eq(turning[(j + columns) % self.numbers]) for j in range(self.numbers)]
            with m.If((group == forward.groups - 1) | (in_row == forward.lanes - 1)):
                m.d.sync += busy.eq(0)
        with m.If(store):
            m.d.sync += [busy.eq(1), side.eq(row.side), turning.eq(row.numbers), in_row.eq(0)]
            m.d.sync += group.eq(row.word * forward.lanes)
