"""Contexts of attention: parameters of their scaling, and their writes."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.softmax.attention_sequencer import AttentionSequencerSpec
from ...ports import elements, member
from ...primitives.fifo import Fifo
from ...primitives.registers import data_register
from ..memory.chunk_line import ChunkLine
from .attention_blocks import phase_layout, settings_layout

_WORDS = 2
"""Queue depth of `scales`, without the output register."""


class ContextPlaces(wiring.Component):
    """Output query, shifts and address for each word of contexts, in the order of the array's sums.

    Attributes
    ----------
    settings : In
        Settings of the operation.
    phase : In, stream
        Context phases, each accepted with the previous phase's last word.
    o : Out, stream
        `scales` of `AttentionSequencer`.
    """

    def __init__(self, spec: AttentionSequencerSpec) -> None:
        self.spec = spec
        phase = stream.Signature(phase_layout(spec))
        words = member(spec.streams()["scales"])
        super().__init__({"settings": In(settings_layout(spec)), "phase": In(phase), "o": words})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, phase = self.spec, self.phase.payload
        m.submodules.line = line = ChunkLine(spec.layout)
        block = Signal(phase_layout(spec), name="block", reset_less=True)
        active, step, take, final = Signal(), Signal(), Signal(), Signal()
        words = spec.columns // spec.exponentials
        word = Signal(range(words), reset_less=True)
        query = Signal.like(block.queries, name="query", reset_less=True)
        group = Signal.like(self.settings.groups, name="group", reset_less=True)
        last_word, last_query, last = Signal(), Signal(), Signal()
        # a queue, so that the next phase need not wait until `o` accepts the previous word
        m.submodules.words = queue = Fifo(self.o.payload.shape(), _WORDS)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        m.d.comb += [
            step.eq(active & queue.i.ready),
            last_word.eq(word == words - 1),
            last_query.eq(last_word & (query == block.queries)),
            last.eq(last_query & (group == self.settings.groups)),
            final.eq(step & last),
            self.phase.ready.eq(~active | final),
            take.eq(self.phase.valid & self.phase.ready),
            line.start.eq(take),
            line.base.eq(phase.rows),
            line.first_part.eq(phase.part),
            line.stride.eq(self.settings.stride),
            line.advance.eq(step & last_query),
        ]
        with m.If(take):
            m.d.sync += [Value.cast(block).eq(Value.cast(phase)), word.eq(0), query.eq(0), group.eq(0)]
        with m.Elif(step):
            m.d.sync += [
                word.eq(Mux(last_word, 0, word + 1)),
                query.eq(Mux(last_query, 0, query + last_word)),
                group.eq(group + last_query),
            ]
        m.d.sync += active.eq(take | (active & ~final))
        scale = queue.i.payload
        m.d.comb += [
            queue.i.valid.eq(active),
            scale.query.eq(query),
            scale.last.eq(last),
            scale.value_shift.eq(self.settings.value_shift),
            scale.output_shift.eq(self.settings.output_shift),
            scale.tag.eq(Cat((line.line + query)[: len(line.line)], line.part, last & block.final)),
        ]
        return m


class ContextWriter(wiring.Component):
    """Gather words into chunks, write the chunks, and count clipped values.

    Attributes
    ----------
    begins : In(1)
        An operation begins: clear the count.
    contexts : In, stream
        As in `AttentionSequencer`.
    o : Out, stream
        `write` of `AttentionSequencer`.
    ends : Out(1)
        The operation's last chunk has been written; high until the next operation begins.
    clipped : Out
        Number of clipped contexts in the operation.
    """

    def __init__(self, spec: AttentionSequencerSpec) -> None:
        self.spec = spec
        streams = spec.streams()
        clipped = streams["done"].fields[0].format.width
        super().__init__(
            {
                "begins": In(1),
                "contexts": member(streams["contexts"]),
                "o": member(streams["write"]),
                "ends": Out(1),
                "clipped": Out(clipped),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, context = self.spec, self.contexts.payload
        words = spec.columns // spec.exponentials
        word, last, taken, complete = Signal(range(words)), Signal(), Signal(), Signal()
        streams = spec.streams()
        write = data_register(m, self.o.payload, "chunk")
        chunk = elements(write.value, streams["write"].fields[-1])
        m.d.comb += [
            # the output register gathers the chunk
            self.contexts.ready.eq((~self.o.valid | self.o.ready) & ~complete),
            taken.eq(self.contexts.valid & self.contexts.ready),
            last.eq(word == words - 1),
            self.ends.eq(complete & ~self.o.valid),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(taken):
            m.d.sync += [
                word.eq(Mux(last, 0, word + 1)),
                self.o.valid.eq(last),
                Cat(write.address, write.part, complete).eq(context.tag),
                write.wide.eq(0),
                self.clipped.eq(self.clipped + sum(Value.cast(context.clipped))),
            ]
        values = elements(context.value, streams["contexts"].fields[0])
        for number, into in enumerate(chunk):
            index, lane = divmod(number, spec.exponentials)
            with m.If(taken & (word == index)):
                m.d.sync += into.eq(values[lane])
        with m.If(self.begins):
            m.d.sync += [self.clipped.eq(0), complete.eq(0)]
        return m
