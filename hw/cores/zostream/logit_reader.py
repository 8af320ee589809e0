"""Logit reader: reads a pass's results from the activation memory, value by value."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.memory.chunks import ChunkLayout
from ....golden.stream.norms import Q11_16
from ...ports import shape
from ...primitives.fifo import Fifo
from ...primitives.mux_tree import mux_tree
from ...stream.engine.engine_port import chunk_values
from ...stream.memory.chunk_line import ChunkLine, chunk_layout

RESULT = stream.Signature(data.StructLayout({"logit": shape(Q11_16), "last": 1}))
"""Stream of results, 24 bits each; `last` marks the last value of a row."""
_WAITING = 2
"""Results in the FIFO of the output; it cuts a long ready path."""


class LogitReader(wiring.Component):
    """Reads the result rows of all sentences: of each row the plus side, then the minus side.

    Results are logits, or the values at a cut. A chunk takes a few cycles more than it has values.

    Parameters
    ----------
    chunks : ChunkLayout
        Activation memory.
    tokens : int
        Most sentences.
    classes : int
        Most values of a row.

    Attributes
    ----------
    start : In(1)
        Begin; one cycle. The inputs below are stable until `done`.
    wide, base, stride : In
        Memory and address of the first row, and address step between groups.
    outputs : In
        Values of a row, at least 1.
    sentences, rows : In
        Sentences, and rows of all sentences; at least 1.
    tokens : In
        Rows of sentence `number`; a cycle later.
    waits : In(1)
        A sentence begins only after the last value of the previous sentence was taken.
    both : In(1)
        Read the minus side, too.
    operands_read, operands : Out, In, streams of a chunk's address, of its values
    number : Out
        Number of the present sentence.
    begins : Out(1)
        The sentence begins; one cycle, at least two cycles after a change of `number`, before its first logit.
    o : Out, stream of `RESULT`
    done : Out(1)
        The last logit was taken; one cycle.
    """

    def __init__(self, chunks: ChunkLayout, tokens: int, classes: int) -> None:
        self.chunks = chunks
        super().__init__(
            {
                "start": In(1),
                "wide": In(1),
                "base": In(shape(chunks.address)),
                "stride": In(shape(chunks.address)),
                "outputs": In(range(classes + 1)),
                **dict.fromkeys(("sentences", "rows", "tokens"), In(range(tokens + 1))),
                "waits": In(1),
                "both": In(1),
                "operands_read": Out(stream.Signature(chunk_layout(chunks))),
                "operands": In(stream.Signature(chunk_values(chunks))),
                "number": Out(range(tokens)),
                "begins": Out(1),
                "o": Out(RESULT),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.line = line = ChunkLine(self.chunks)
        read, operands, columns = self.operands_read, self.operands, self.chunks.columns
        minus, pending = Signal(), Signal.like(self.outputs, reset_less=True)
        column = Signal(range(columns))
        # row among all rows, and remaining rows of the sentence
        place, left_rows = Signal.like(self.rows, name="place"), Signal.like(self.tokens, reset_less=True)
        row = Mux(minus, self.rows + place, place)
        m.d.comb += [
            line.wide.eq(self.wide),
            read.payload.wide.eq(self.wide),
            line.base.eq(self.base),
            line.stride.eq(self.stride),
            read.payload.address.eq(line.line + row),
            read.payload.part.eq(line.part),
        ]
        # registered flags of the row's and of the chunk's last value: the memory's reads wait for them
        last, ends = Signal(reset_less=True), Signal(reset_less=True)
        following = Signal.like(column, name="following")
        results = self._results(m, column, last)
        taken = operands.valid & results.i.ready
        final, new = self.number == self.sentences - 1, Signal()
        # operands follow only a read, so ready needs no state: its path to the memory is long
        m.d.comb += [operands.ready.eq(ends & results.i.ready), results.i.valid.eq(operands.valid)]
        m.d.comb += following.eq(Mux(ends, 0, column + 1))
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [self.number.eq(0), minus.eq(0), place.eq(0)]
                with m.If(self.start):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.sync += new.eq(1)
                m.next = "BEGIN"
            with m.State("BEGIN"), m.If(~self.waits | results.empty | ~new):
                m.d.comb += [line.start.eq(1), self.begins.eq(new)]
                m.d.sync += [pending.eq(self.outputs), Cat(last, ends).eq((self.outputs == 1).replicate(2)), new.eq(0)]
                with m.If(new):
                    m.d.sync += left_rows.eq(self.tokens)
                m.next = "READ"
            with m.State("READ"):
                m.d.comb += read.valid.eq(1)
                with m.If(read.ready):
                    m.next = "GIVE"
            with m.State("GIVE"):
                with m.If(taken):
                    m.d.sync += [pending.eq(pending - 1), last.eq(pending == 2), column.eq(following)]
                    m.d.sync += ends.eq((pending == 2) | (following == columns - 1))
                with m.If(taken & ends):
                    m.d.comb += line.advance.eq(1)
                    m.next = "READ"
                with m.If(taken & last):
                    m.d.sync += minus.eq(self.both & ~minus)
                    m.next = "BEGIN"
                    with m.If(minus | ~self.both):
                        m.d.sync += [place.eq(place + 1), left_rows.eq(left_rows - 1)]
                        with m.If(left_rows == 1):
                            m.d.sync += self.number.eq(self.number + 1)
                            m.next = "FETCH"
                            with m.If(final):
                                m.next = "LAST"
            with m.State("LAST"), m.If(results.empty):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        return m

    def _results(self, m: Module, column: Signal, last: Value) -> Fifo:
        """FIFO of results, filled from the chunk on offer."""
        m.submodules.results = results = Fifo(self.o.payload.shape(), _WAITING)
        wiring.connect(m, results.o, wiring.flipped(self.o))
        values = self.operands.payload.value
        m.d.comb += [
            results.i.payload.logit.eq(mux_tree(column, [values[number] for number in range(self.chunks.columns)])),
            results.i.payload.last.eq(last),
        ]
        return results
