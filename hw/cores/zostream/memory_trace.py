"""`zostream` whose monitor shows its activation memory: what each instruction writes, to find where a job is wrong."""

from amaranth.hdl import Cat, Module, Mux

from ....golden.cores.zostream.memory_trace import MemoryTraceLayout
from ....golden.cores.zostream.zostream import ZostreamSpec
from ...stream.engine.unit_choice import Unit
from ..shelled_core import Monitor
from .zostream import TransformerTrainer, Zostream


def trace_monitor(layout: MemoryTraceLayout) -> Monitor:
    """Make the monitor of both memories, which shows the operation at work as any monitor of the core."""
    return Monitor(layout.chunk_beats, layout.bits, operations=True)


class TracedTrainer(TransformerTrainer):
    """The trainer; its monitor shows each chunk that is written, and the end of each instruction."""

    def __init__(self, spec: ZostreamSpec) -> None:
        self._layout = MemoryTraceLayout(spec.engine.chunks)
        super().__init__(spec, trace_monitor(self._layout))

    def show(self, m: Module) -> None:
        """Show chunks as beats of an image of both memories, see `MemoryTraceLayout`."""
        engine, layout, monitor = self.engine, self._layout, self.monitor
        write, chunks = engine.memory.write.payload, layout.chunks
        narrow = write.address * chunks.parts + (write.part if chunks.parts > 1 else 0)
        ends = (
            block.done.valid & block.done.ready
            for unit, block in engine.units.items()
            if unit != Unit.ROTARY  # the first part of an attention's instruction
        )
        m.d.comb += [
            monitor.valid.eq(Mux(engine.memory.write.valid, (1 << layout.chunk_beats) - 1, 0)),
            monitor.beat.eq(Mux(write.wide, layout.narrow_chunks + write.address, narrow) * layout.chunk_beats),
            Cat(*(monitor.data.word_select(at, 32) for at in range(chunks.columns))).eq(
                Cat(*(Cat(write.value[at], write.value[at][-1].replicate(5)) for at in range(chunks.columns)))
            ),
            monitor.done.eq(Cat(*ends).any()),
            monitor.operation.eq(engine.port.operation),
        ]


class MemoryTrace(Zostream):
    """The core with `TracedTrainer`."""

    def __init__(self, spec: ZostreamSpec) -> None:
        super().__init__(spec, trace_monitor(MemoryTraceLayout(spec.engine.chunks)))

    def trainer(self) -> TracedTrainer:
        """Build the trainer inside."""
        return TracedTrainer(self.spec)
