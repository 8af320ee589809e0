"""Pass memory: sentences of a pass, as many of a step's as there is room for."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.cores.zostream.pass_memory import pass_memory
from ...primitives.ram import ram
from .sentence_scheduler import sentence_layout


def entry_layout(tokens: int, address: int = ADDRESS_BITS) -> data.StructLayout:
    """Layout of a sentence in the memory: ``beat``, ``kept``, ``tokens``, ``label``."""
    layout = sentence_layout(tokens, address)
    return data.StructLayout({name: field.shape for name, field in layout if name not in ("upper", "last")})


class PassMemory(wiring.Component):
    """Take sentences, in order, as long as both sides of them have room, up to a step's last one.

    Parameters
    ----------
    tokens : int
        Most tokens of a side.
    address : int
        Bits of a byte address.

    Attributes
    ----------
    sentence : In, stream of `sentence_layout`
        Sentences; each has room by itself.
    capacity : In, 16 bits
        Tokens of both sides that there is room for.
    clear : In(1)
        The pass is over: begin the next one. One cycle, while `complete`.
    complete : Out(1)
        Nothing more belongs to the pass. The members below are those of a complete pass.
    sentences, rows, longest : Out
        Number of sentences, tokens of all of them, and of the longest.
    upper : Out(1)
        They are read from what is kept.
    last : Out(1)
        The step's last sentence is among them.
    number : In
        Sentence to read.
    entry : Out
        Its ``beat``, ``kept``, ``tokens`` and ``label``, a cycle later.
    """

    def __init__(self, tokens: int, address: int = ADDRESS_BITS) -> None:
        self._planned = pass_memory(tokens, address)
        self._entry, count = entry_layout(tokens, address), range(tokens + 1)
        super().__init__(
            {
                "sentence": In(stream.Signature(sentence_layout(tokens, address))),
                "capacity": In(16),
                "clear": In(1),
                "complete": Out(1),
                **dict.fromkeys(("sentences", "rows", "longest"), Out(count)),
                "upper": Out(1),
                "last": Out(1),
                "number": In(range(tokens)),
                "entry": Out(self._entry),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sentences = memory = ram(platform, self._planned, self._entry)
        write, read = memory.write_port(), memory.read_port()
        given, longest = self.sentence.payload, self.longest
        rows, fits, written = Signal(len(self.rows) + 1, reset_less=True), Signal(reset_less=True), Signal()
        m.d.sync += [rows.eq(self.rows + given.tokens), fits.eq(Cat(0, rows) <= self.capacity)]
        m.d.comb += [
            self.sentence.ready.eq(written),
            write.en.eq(written),
            write.addr.eq(self.sentences),
            *(write.data[name].eq(given[name]) for name in self._entry.members),
            read.addr.eq(self.number),
            self.entry.eq(read.data),
        ]
        with m.FSM():
            with m.State("WAIT"), m.If(self.sentence.valid & ~self.complete):
                m.next = "SUM"
            with m.State("SUM"):
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += written.eq(fits)
                m.d.sync += [self.complete.eq(given.last | ~fits), self.last.eq(given.last & fits)]
                with m.If(fits):
                    m.d.sync += self.upper.eq(given.upper)
                    m.d.sync += [self.sentences.eq(self.sentences + 1), self.rows.eq(rows)]
                    m.d.sync += longest.eq(Mux(given.tokens > longest, given.tokens, longest))
                m.next = "WAIT"
        with m.If(self.clear):
            m.d.sync += [self.complete.eq(0), self.sentences.eq(0), self.rows.eq(0), longest.eq(0)]
        return m
