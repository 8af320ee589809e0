"""RTL of `attention_sequencer`: query blocks, with phases for the readers, softmax, division and writer."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from ....golden.stream.softmax.attention_sequencer import AttentionSequencerSpec
from ...ports import members
from ...primitives.registers import data_register
from ...probe import probe
from .attention_blocks import AttentionBlocks
from .attention_contexts import ContextPlaces, ContextWriter
from .attention_reads import KeyReads, QueryReads

_OWED = 4
"""Bits of the count of blocks with outstanding reciprocals."""


class AttentionSequencer(wiring.Component):
    """Issue the commands of operations in sequence; each stream gets up to a command a cycle.

    The next operation is accepted once the previous operation's `done` word is offered.
    """

    def __init__(self, spec: AttentionSequencerSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.blocks = blocks = AttentionBlocks(spec)
        m.submodules.keys = keys = KeyReads(spec)
        m.submodules.queries = queries = QueryReads(spec)
        m.submodules.places = places = ContextPlaces(spec)
        m.submodules.writer = writer = ContextWriter(spec)
        busy, begins, owed, owes = Signal(), Signal(), Signal(_OWED), Signal()
        m.d.comb += [
            begins.eq(self.operation.valid & self.operation.ready),
            self.operation.ready.eq(blocks.operation.ready & ~busy),
            blocks.operation.valid.eq(self.operation.valid & ~busy),
            blocks.operation.payload.eq(self.operation.payload),
            writer.begins.eq(begins),
        ]
        wiring.connect(m, wiring.flipped(self.sentences), blocks.sentences)
        for part in (keys, queries, places):
            m.d.comb += part.settings.eq(blocks.settings)
        # `owed`: number of blocks with outstanding reciprocals; `owes`: at least one
        scored = Signal()
        m.d.sync += scored.eq(self._give(m, blocks, (keys.phase, queries.phase, places.phase), owed))
        counted = self._count(m, owes, begins)
        comes = self.inverse.valid & self.inverse.ready & self.inverse.payload.last
        m.d.sync += [owed.eq(owed + scored - comes), owes.eq(scored | (owed > comes))]
        for inner, outer in ((keys.o, self.keys_read), (queries.o, self.rows_read), (queries.order, self.order)):
            wiring.connect(m, inner, wiring.flipped(outer))
        wiring.connect(m, places.o, wiring.flipped(self.scales))
        wiring.connect(m, writer.o, wiring.flipped(self.write))
        m.d.comb += [
            writer.contexts.valid.eq(self.contexts.valid & busy),
            writer.contexts.payload.eq(self.contexts.payload),
            self.contexts.ready.eq(writer.contexts.ready & busy),
        ]
        # the operation ends when all submodules are idle
        issued = blocks.operation.ready & ~blocks.o.valid & ~owes
        through = keys.phase.ready & queries.phase.ready & places.phase.ready & writer.ends
        ends = busy & issued & through & ~self.done.valid
        m.d.sync += busy.eq(begins | (busy & ~ends))
        done = data_register(m, self.done.payload, "total")
        with m.If(ends):
            m.d.sync += [self.done.valid.eq(1), done.clipped.eq(counted + writer.clipped)]
        with m.Elif(self.done.ready):
            m.d.sync += self.done.valid.eq(0)
        probe(self, busy=busy, owed=owed, owes=owes, counted=counted)
        return m

    def _give(
        self, m: Module, blocks: AttentionBlocks, phases: tuple[wiring.PureInterface, ...], owed: Signal
    ) -> Value:
        """Issue a phase to each submodule when it is ready; returns a flag: all have accepted a phase of scores."""
        phase, settings = blocks.o.payload, blocks.settings
        free = ~self.softmax.valid | self.softmax.ready
        wanted = Cat(1, 1, phase.contexts, ~phase.contexts)
        ready = Cat(*(port.ready for port in phases), free)
        gives, taken = Signal(len(ready)), Signal(len(ready))
        # stop one block below the limit, as `owed` does not yet count a block of the previous cycle
        offered = blocks.o.valid & (phase.contexts | ~owed[1:].all())
        m.d.comb += [
            gives.eq(wanted & ~taken & offered.replicate(len(ready))),
            blocks.o.ready.eq(offered & (~wanted | taken | ready).all()),
        ]
        m.d.sync += taken.eq(Mux(blocks.o.ready, 0, taken | (gives & ready)))
        for port, valid in zip(phases, gives, strict=False):
            m.d.comb += [port.valid.eq(valid), port.payload.eq(phase)]
        operation = data_register(m, self.softmax.payload, "block")
        with m.If(free):
            m.d.sync += [
                self.softmax.valid.eq(gives[-1]),
                operation.queries.eq(phase.queries + 1),
                operation.keys.eq(phase.keys + 1),
                operation.first.eq(phase.query),
                operation.repeats.eq(settings.groups + 1),
                *(
                    getattr(operation, name).eq(getattr(settings, name))
                    for name in ("causal", "factor", "fraction", "query_shift", "key_shift")
                ),
            ]
        return blocks.o.ready & ~phase.contexts

    def _count(self, m: Module, owes: Signal, begins: Signal) -> Signal:
        """Forward the reciprocals of blocks that were issued; returns the number of clipped scores."""
        reciprocal, clipped = self.inverse.payload, Signal(len(self.done.payload.clipped), reset_less=True)
        m.d.comb += [
            self.reciprocals.valid.eq(self.inverse.valid & owes),
            self.inverse.ready.eq(self.reciprocals.ready & owes),
            self.reciprocals.payload.mantissa.eq(reciprocal.mantissa),
            self.reciprocals.payload.exponent.eq(reciprocal.exponent),
            self.reciprocals.payload.last.eq(reciprocal.last),
        ]
        with m.If(begins):
            m.d.sync += clipped.eq(0)
        with m.Elif(self.inverse.valid & self.inverse.ready):
            m.d.sync += clipped.eq(clipped + reciprocal.clipped)
        return clipped
