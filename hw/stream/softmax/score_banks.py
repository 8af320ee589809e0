"""Memory of scores, and of the weights that replace the scores."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.softmax.attention_softmax import AttentionSoftmaxSpec
from ...primitives.mux_tree import mux_tree
from ...primitives.ram import ram
from .attention_scores import place_layout


class ScoreBanks(wiring.Component):
    """Store and read words of scores, store words of weights, and read whole weight rows; each access takes one cycle.

    A row spans several memories, at a common address, with a word in each. Each bank is in one phase at a time: scores
    arrive, weights replace them, or rows are read.

    Attributes
    ----------
    store, store_at, scores : In
        Write a word of scores.
    put, put_at, weights : In
        Write a word of weights.
    get, get_at : In
        Read a word.
    word : Out
        The word, from the cycle after `get` until the cycle of the next `get`; selected behind the memories' output
        registers.
    row, row_at : In
        Read a row: bank, query and tile.
    weight : Out
        The row, with the timing of `word`.
    turn : In(2)
        For each bank: rows are read, not words.
    """

    def __init__(self, spec: AttentionSoftmaxSpec) -> None:
        self.spec = spec
        address, word = place_layout(spec), spec.exponentials * Q8_16.width
        tiles = exact_log2(spec.keys // spec.lanes)
        row = data.StructLayout({"bank": 1, "query": address["query"].shape, "tile": tiles})
        super().__init__(
            {
                "store": In(1),
                "store_at": In(address),
                "scores": In(word),
                "put": In(1),
                "put_at": In(address),
                "weights": In(word),
                "get": In(1),
                "get_at": In(address),
                "word": Out(word),
                "row": In(1),
                "row_at": In(row),
                "weight": Out(word * spec.lanes // spec.exponentials),
                "turn": In(2),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = self.spec.lanes // self.spec.exponentials
        words: list[Value] = []
        rows: list[Value] = []
        for bank in range(2):
            get, row = self.get & (self.get_at.bank == bank), self.row & (self.row_at.bank == bank)
            store, put = self.store & (self.store_at.bank == bank), self.put & (self.put_at.bank == bank)
            read_at = Mux(self.turn[bank], Cat(self.row_at.query, self.row_at.tile), self._row(self.get_at))
            bank_words: list[Value] = []
            for number in range(count):
                m.submodules[f"bank{bank}_{number}"] = memory = ram(platform, self.spec.score_memory)
                write, read = memory.write_port(), memory.read_port()
                stored, replaced = (
                    flag & (address.part[: exact_log2(count)] == number)
                    for flag, address in ((store, self.store_at), (put, self.put_at))
                )
                m.d.comb += [
                    read.addr.eq(read_at),
                    read.en.eq(get | row),
                    write.addr.eq(Mux(put, self._row(self.put_at), self._row(self.store_at))),
                    write.data.eq(Mux(put, self.weights, self.scores)),
                    write.en.eq(stored | replaced),
                ]
                bank_words.append(read.data)
            words += bank_words
            rows.append(Cat(bank_words))
        part, word_bank, row_bank = Signal(exact_log2(count)), Signal(), Signal()
        with m.If(self.get):
            m.d.sync += [part.eq(self.get_at.part), word_bank.eq(self.get_at.bank)]
        with m.If(self.row):
            m.d.sync += row_bank.eq(self.row_at.bank)
        m.d.comb += [
            self.word.eq(mux_tree(Cat(part, word_bank), words)),
            self.weight.eq(Mux(row_bank, rows[1], rows[0])),
        ]
        return m

    def _row(self, address: data.View) -> Value:
        return Cat(address.query, address.part[exact_log2(self.spec.lanes // self.spec.exponentials) :])
