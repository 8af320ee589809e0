"""RTL of `norm_path`: read chunks of rows for `layer_norm`, and write chunks of its results."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.stream.values.norm_path import NormPathSpec
from ...ports import elements, members
from ...primitives.mux_tree import mux_tree
from ...probe import probe
from ..memory.chunk_line import ChunkLine
from .layer_norm import LayerNorm


class NormPath(wiring.Component):
    """Normalise the rows of operations in sequence, `spec.norm_lanes` values a cycle."""

    def __init__(self, spec: NormPathSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.norm = norm = LayerNorm(spec.norm)
        wiring.connect(m, wiring.flipped(self.parameters), norm.parameters)
        self._settings = settings = Signal.like(self.operation.payload, reset_less=True)
        active, issued = Signal(), Signal()
        begin, end = Signal(), Signal()
        m.d.comb += [
            begin.eq(self.operation.valid & ~active),
            self.operation.ready.eq(~active),
            norm.operation.valid.eq(active & ~issued),
            norm.operation.payload.rows.eq(settings.rows << 1),
            *(
                getattr(norm.operation.payload, name).eq(getattr(settings, name))
                for name, _ in norm.operation.payload.shape()
                if name != "rows"
            ),
        ]
        words = exact_log2(spec.columns // spec.norm_lanes)
        self._last_word = Signal(len(settings.features) - exact_log2(spec.norm_lanes), reset_less=True)
        with m.If(begin):
            m.d.sync += [settings.eq(self.operation.payload), active.eq(1), issued.eq(0)]
            m.d.sync += self._last_word.eq((self.operation.payload.features - 1) >> exact_log2(spec.norm_lanes))
        with m.Elif(norm.operation.valid & norm.operation.ready):
            m.d.sync += issued.eq(1)
        with m.If(end):
            m.d.sync += active.eq(0)
        self._read(m, begin, words)
        self._take(m, norm, begin, words)
        self._write(m, norm, begin, end, words)
        probe(self, active=active, told=issued)
        return m

    def _line(self, m: Module, name: str, begin: Value, moves: Value, ends: Value) -> tuple[ChunkLine, Signal]:
        """Address counters for the chunks of a value, row by row; returns the counter in a row, and the row number."""
        line, row = ChunkLine(self.spec.layout), Signal(self.spec.count.width, name=f"{name}_row", reset_less=True)
        m.submodules[name] = line
        upcoming, held = self.operation.payload, self._settings
        m.d.comb += [
            line.start.eq(begin | (moves & ends)),
            line.wide.eq(Mux(begin, *(getattr(source, f"{name}_wide") for source in (upcoming, held)))),
            line.base.eq(Mux(begin, *(getattr(source, name) for source in (upcoming, held)))),
            line.stride.eq(self._settings.stride),
            line.advance.eq(moves),
        ]
        with m.If(begin):
            m.d.sync += row.eq(0)
        with m.Elif(moves & ends):
            m.d.sync += row.eq(row + 1)
        return line, row

    def _read(self, m: Module, begin: Value, words: int) -> None:
        reading, chunk, read = (
            Signal(name="reading"),
            Signal.like(self._last_word[words:], reset_less=True),
            self.operands_read,
        )
        moves, ends = read.valid & read.ready, chunk == self._last_word[words:]
        line, row = self._line(m, "source", begin, moves, ends)
        m.d.comb += [
            read.valid.eq(reading),
            read.payload.wide.eq(line.in_wide),
            read.payload.address.eq(line.line + row),
            read.payload.part.eq(line.part),
        ]
        with m.If(begin):
            m.d.sync += [reading.eq(1), chunk.eq(0)]
        with m.Elif(moves):
            m.d.sync += [chunk.eq(Mux(ends, 0, chunk + 1)), reading.eq(~ends | (row != self._last_row))]
        probe(self, reading=reading, chunk=chunk, read_row=row)

    @property
    def _last_row(self) -> Value:
        return (self._settings.rows << 1) - 1

    def _take(self, m: Module, norm: LayerNorm, begin: Value, words: int) -> None:
        word, row = (
            Signal.like(self._last_word, name="word", reset_less=True),
            Signal(self.spec.count.width, reset_less=True),
        )
        # registered flags: the word is the last of the row, the last of the chunk
        taken, ends, closes = norm.i.valid & norm.i.ready, Signal(reset_less=True), Signal(reset_less=True)
        places = Const(0, len(word)), (word + 1)[: len(word)], word
        for flag, whole in ((ends, 0), (closes, 1)):
            first, following, same = ((index == self._last_word) | (index[:words].all() & whole) for index in places)
            m.d.sync += flag.eq(Mux(taken, Mux(ends, first, following), same))
        chunk = Value.cast(self.operands.payload.value)
        size = len(chunk) >> words
        m.d.comb += [
            norm.i.valid.eq(self.operands.valid),
            Value.cast(norm.i.payload.value).eq(
                mux_tree(word[:words], [chunk.word_select(index, size) for index in range(1 << words)])
            ),
            norm.i.payload.side.eq(row >= self._settings.rows),
            self.operands.ready.eq(norm.i.ready & closes),
        ]
        with m.If(begin):
            m.d.sync += [word.eq(0), row.eq(0)]
        with m.Elif(taken):
            m.d.sync += [word.eq(Mux(ends, 0, word + 1)), row.eq(row + ends)]
        probe(self, word=word, taken_row=row, ends=ends, closes=closes)

    def _write(self, m: Module, norm: LayerNorm, begin: Value, end: Signal, words: int) -> None:
        """Collect result words into chunks, write the chunks, and count clipped values."""
        spec, result, write = self.spec, norm.o.payload, self.write
        # timing: `part` has a high fanout, so the handshakes use a flag, `final_part`
        part, final_part, whole = Signal(words), Signal(init=words == 0), Signal()
        following = Signal.like(part)
        form = spec.streams()["write"].fields[-1].format
        value = Cat(
            Cat(lane, lane[-1].replicate(form.width - len(lane)))
            for lane in elements(result.value, spec.norm.streams()["o"].fields[0])
        )
        held = [Signal(len(value), name=f"held{index}", reset_less=True) for index in range((1 << words) - 1)]
        m.d.comb += [
            whole.eq(result.last | final_part),
            following.eq(Mux(whole, 0, part + 1)),
            write.valid.eq(norm.o.valid & whole),
            norm.o.ready.eq(~whole | write.ready),
            Value.cast(write.payload.value).eq(
                Cat(
                    *(Mux(part == index, value, Mux(part > index, old, 0)) for index, old in enumerate(held)),
                    Mux(part.all(), value, 0),
                )
            ),
        ]
        taken = norm.o.valid & norm.o.ready
        moves = write.valid & write.ready
        line, row = self._line(m, "destination", begin, moves, result.last)
        m.d.comb += [
            write.payload.wide.eq(line.in_wide),
            write.payload.address.eq(line.line + row),
            write.payload.part.eq(line.part),
        ]
        marks = Cat(result.clipped, result.clipped_scaled)
        marked, final = Signal(range(len(marks) + 1), reset_less=True), Signal(2)
        m.d.sync += [
            marked.eq(Mux(taken, sum(marks), 0)),
            final.eq(Cat(moves & result.last & (row == self._last_row), final[0])),
            self.done.payload.clipped.eq(Mux(begin, 0, self.done.payload.clipped + marked)),
        ]
        with m.If(taken):
            m.d.sync += [part.eq(following), final_part.eq(following.all() if words else 1)]
            for index, old in enumerate(held):
                with m.If(part == index):
                    m.d.sync += old.eq(value)
        m.d.comb += end.eq(self.done.valid & self.done.ready)
        m.d.sync += self.done.valid.eq(final[1] | (self.done.valid & ~self.done.ready))
        probe(self, part=part, written_row=row, held=held, marked=marked, final=final)
