"""`zostream` with a monitor of its activation memory, to find the first wrong instruction of a job."""

from amaranth.hdl import Cat, Module, Mux

from ....golden.cores.zostream.memory_trace import MemoryTraceLayout
from ....golden.cores.zostream.zostream import ZostreamSpec
from ...stream.engine.unit_choice import Unit
from ..shelled_core import Monitor
from ..zeroth_order.sequencer import ZerothOrderSequencer
from ..zeroth_order.zeroth_order_core import ZerothOrderCore
from .stream_passes import StreamPasses
from .streamed_trainer import StreamedTrainer


class TracedTrainer(StreamedTrainer):
    """Trainer with a monitor of each written chunk and of the end of each instruction."""

    def show(self, m: Module) -> None:
        """Drive the monitor with chunks as beats of an image of both memories, see `MemoryTraceLayout`."""
        engine, monitor = self.engine, self.monitor
        layout = MemoryTraceLayout(engine.spec.chunks)
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
            Cat(*(monitor.data.word_select(index, 32) for index in range(chunks.columns))).eq(
                Cat(*(Cat(write.value[index], write.value[index][-1].replicate(5)) for index in range(chunks.columns)))
            ),
            monitor.done.eq(Cat(*ends).any()),
            monitor.operation.eq(engine.port.operation),
        ]


class TracedPasses(StreamPasses):
    """`StreamPasses` with a `TracedTrainer`."""

    @classmethod
    def assemble(cls, sequencer: ZerothOrderSequencer) -> TracedTrainer:
        """Trainer of the core, with the monitor of `TracedZostream`."""
        return TracedTrainer(sequencer, trace_monitor(sequencer.spec))


def trace_monitor(spec: ZostreamSpec) -> Monitor:
    """Monitor of both activation memories and of the active operation."""
    layout = MemoryTraceLayout(spec.engine.chunks)
    return Monitor(layout.chunk_beats, layout.bits, operations=True)


class TracedZostream(ZerothOrderCore):
    """`Zostream` with the monitor of `TracedTrainer`."""

    passes = TracedPasses

    def __init__(self, spec: ZostreamSpec) -> None:
        super().__init__(spec, trace_monitor(spec))
