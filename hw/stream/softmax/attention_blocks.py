"""Query blocks of an attention operation."""

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from ....golden.stream.softmax.attention_sequencer import AttentionSequencerSpec
from ....golden.stream.softmax.attention_softmax import REPEATS
from ...ports import layout, member, shape
from ...primitives.registers import data_register
from ...probe import probe
from ..memory.chunk_line import ChunkLine

SETTINGS = ("causal", "factor", "fraction", "query_shift", "key_shift", "value_shift", "output_shift")
"""Fields of an operation that all its blocks share."""


def settings_layout(spec: AttentionSequencerSpec) -> data.StructLayout:
    """Layout of the settings that an operation's blocks share: `SETTINGS`, groups of a head minus 1, and the stride."""
    fields = {item.name: shape(item.format) for item in spec.streams()["operation"].fields if item.name in SETTINGS}
    more: dict[str, Shape] = {"groups": shape(REPEATS), "stride": shape(spec.layout.address)}
    return data.StructLayout(fields | more)


def phase_layout(spec: AttentionSequencerSpec) -> data.StructLayout:
    """Layout of a phase of a block: its scores or its contexts.

    `queries` and `keys` are the numbers of queries and keys, minus 1. `lines` is the number of memory rows with
    features of the head, minus 1. `part` is the head's first part in the first of these rows, `last_part` the head's
    last part in the last. `rows` is the address of the first query or context, `loads` the address of the first key or
    value. In causal attention `query` is the first query's position in its sentence. `final` marks the operation's last
    phase.
    """
    address, part = shape(spec.layout.address), shape(spec.layout.part)
    key = unsigned(exact_log2(spec.keys))
    return data.StructLayout(
        {
            "contexts": 1,
            "final": 1,
            "queries": unsigned(exact_log2(spec.queries)),
            "keys": key,
            "query": key,
            "rows": address,
            "loads": address,
            "lines": shape(REPEATS),
            "part": part,
            "last_part": part,
        }
    )


class AttentionBlocks(wiring.Component):
    """Step through sentences, heads and query blocks; a phase takes a few cycles, a new head takes a cycle per group.

    Attributes
    ----------
    operation, sentences : In, streams
        As in `AttentionSequencer`.
    settings : Out
        Settings of the operation, stable until the next operation is accepted.
    o : Out, stream of phases
        Phases: the contexts of a block follow the scores of the next block.
    """

    def __init__(self, spec: AttentionSequencerSpec) -> None:
        self.spec = spec
        streams = spec.streams()
        super().__init__(
            {
                "operation": member(streams["operation"]),
                "sentences": member(streams["sentences"]),
                "settings": Out(settings_layout(spec)),
                "o": Out(stream.Signature(phase_layout(spec))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the state machine; longer than most functions, as its states share all registers."""
        m = Module()
        offer = self.operation.payload
        held = Signal(layout(self.spec.streams()["operation"]), reset_less=True)
        settings = data_register(m, self.settings, "kept")
        now, before = (Signal(phase_layout(self.spec), name=name, reset_less=True) for name in ("now", "before"))
        sentences, head, shared, group = (
            Signal.like(like, name=name, reset_less=True)
            for name, like in (
                ("sentences_left", offer.sentences),
                ("heads_left", offer.heads),
                ("shared", offer.heads),
                ("group", settings.groups),
            )
        )
        first, row = (
            Signal.like(self.sentences.payload.first, name=name, reset_less=True) for name in ("start", "row")
        )
        last_key, begin = (Signal.like(now.keys, name=name, reset_less=True) for name in ("last_key", "begin"))
        more, following, free = Signal(reset_less=True), Signal(), Signal()
        # the head is the last query head of its key head; stable long before the next head
        over = Signal(reset_less=True)
        size = exact_log2(self.spec.queries)
        query_line, key_line = self._lines(m, settings)
        # timing: `o.ready` settles late in the cycle, so a new phase waits one more cycle
        m.d.comb += free.eq(~self.o.valid)
        m.d.sync += over.eq(shared == held.heads)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.FSM() as fsm:
            with m.State("idle"):
                m.d.comb += self.operation.ready.eq(1)
                with m.If(self.operation.valid):
                    m.d.sync += [Value.cast(held).eq(Value.cast(offer)), sentences.eq(offer.sentences), following.eq(0)]
                    m.d.sync += [getattr(settings, name).eq(getattr(offer, name)) for name in (*SETTINGS, "stride")]
                    m.d.sync += settings.groups.eq(offer.width[exact_log2(self.spec.columns) :] - 1)
                    m.next = "sentence"
            with m.State("sentence"):
                sentence = self.sentences.payload
                m.d.comb += [self.sentences.ready.eq(1), query_line.start.eq(1), key_line.start.eq(1)]
                m.d.sync += [first.eq(sentence.first), last_key.eq(sentence.length - 1)]
                m.d.sync += [head.eq(held.heads), shared.eq(held.key_heads)]
                with m.If(self.sentences.valid):
                    m.d.sync += sentences.eq(sentences - 1)
                    m.next = "head"
            with m.State("head"):
                m.d.sync += [begin.eq(0), row.eq(first), group.eq(settings.groups), head.eq(head - 1)]
                m.next = "block"
            with m.State("block"):
                ends = query_line.part + settings.groups
                parts = exact_log2(self.spec.layout.parts)
                remains = last_key[size:] != begin[size:]
                queries = last_key[:size] | remains.replicate(size)
                m.d.sync += [
                    more.eq(remains),
                    now.queries.eq(queries),
                    now.keys.eq(Mux(settings.causal, Cat(queries, begin[size:]), last_key)),
                    now.query.eq(Mux(settings.causal, begin, 0)),
                    now.rows.eq(query_line.line + row),
                    now.loads.eq(key_line.line + first),
                    now.lines.eq(ends >> parts),
                    now.part.eq(query_line.part),
                    now.last_part.eq(ends[:parts]),
                ]
                m.next = "scores"
            with m.State("scores"), m.If(free):
                self._give(m, now, held.queries, held.keys)
                m.next = "contexts"
            with m.State("contexts"), m.If(free):
                with m.If(following):
                    self._give(m, before, held.destination, held.values, contexts=1)
                m.d.sync += [Value.cast(before).eq(Value.cast(now)), following.eq(1)]
                m.d.sync += [begin.eq(begin + self.spec.queries), row.eq(row + self.spec.queries)]
                with m.If(more):
                    m.next = "block"
                with m.Elif(head != 0):
                    m.next = "advance"
                with m.Elif(sentences != 0):
                    m.next = "sentence"
                with m.Else():
                    m.next = "final"
            with m.State("advance"):
                m.d.comb += [query_line.advance.eq(1), key_line.advance.eq(over)]
                m.d.sync += group.eq(group - 1)
                with m.If(group == 0):
                    m.d.sync += shared.eq(Mux(over, 0, shared) + held.key_heads)
                    m.next = "head"
            with m.State("final"), m.If(free):
                self._give(m, before, held.destination, held.values, contexts=1, final=1)
                m.next = "idle"
        probe(self, fsm, settings=settings, group=group)
        return m

    def _lines(self, m: Module, settings: data.View) -> tuple[ChunkLine, ChunkLine]:
        m.submodules.query_line = query_line = ChunkLine(self.spec.layout)
        m.submodules.key_line = key_line = ChunkLine(self.spec.layout)
        m.d.comb += [query_line.stride.eq(settings.stride), key_line.stride.eq(settings.stride)]
        return query_line, key_line

    def _give(
        self,
        m: Module,
        block: data.View,
        rows: Value,
        loads: Value,
        contexts: int = 0,
        final: int = 0,
    ) -> None:
        """Output a phase of a block; `rows` and `loads` are base addresses, added to those of the block."""
        phase = self.o.payload
        m.d.sync += [
            Value.cast(phase).eq(Value.cast(block)),
            phase.rows.eq(block.rows + rows),
            phase.loads.eq(block.loads + loads),
            phase.contexts.eq(contexts),
            phase.final.eq(final),
            self.o.valid.eq(1),
        ]
