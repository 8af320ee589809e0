"""Pass memory: the sentences of a pass, as many of a step's sentences as fit."""

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
    """Collects sentences in order, while both sides of their tokens fit, up to the step's last sentence.

    A sentence takes three cycles.

    Parameters
    ----------
    tokens : int
        Most tokens of a side.
    address : int
        Bits of a byte address.

    Attributes
    ----------
    sentence : In, stream of `sentence_layout`
        Sentences; each fits alone.
    capacity : In, 16 bits
        Most tokens of a pass, of both sides.
    clear : In(1)
        End the pass; one cycle, while `complete`.
    complete : Out(1)
        The pass is full or has the step's last sentence; the outputs below are valid.
    sentences, rows, longest : Out
        Sentences, tokens of all sentences, tokens of the longest.
    upper : Out(1)
        The sentences are read from the cache of the cut.
    last : Out(1)
        The pass has the step's last sentence.
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
        sentence, longest = self.sentence.payload, self.longest
        rows, fits, written = Signal(len(self.rows) + 1, reset_less=True), Signal(reset_less=True), Signal()
        m.d.sync += [rows.eq(self.rows + sentence.tokens), fits.eq(Cat(0, rows) <= self.capacity)]
        m.d.comb += [
            self.sentence.ready.eq(written),
            write.en.eq(written),
            write.addr.eq(self.sentences),
            *(write.data[name].eq(sentence[name]) for name in self._entry.members),
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
                m.d.sync += [self.complete.eq(sentence.last | ~fits), self.last.eq(sentence.last & fits)]
                with m.If(fits):
                    m.d.sync += self.upper.eq(sentence.upper)
                    m.d.sync += [self.sentences.eq(self.sentences + 1), self.rows.eq(rows)]
                    m.d.sync += longest.eq(Mux(sentence.tokens > longest, sentence.tokens, longest))
                m.next = "WAIT"
        with m.If(self.clear):
            m.d.sync += [self.complete.eq(0), self.sentences.eq(0), self.rows.eq(0), longest.eq(0)]
        return m
