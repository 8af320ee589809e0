"""Passes on the array: a frozen network and its adapters on the chip, for the trainer of adapters."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring

from ....golden.axi.bus import reach
from ....golden.cores.instantft.instantft import InstantftSpec
from ...lora.engine import AdapterEngine
from ...lora.job.batch_unpacker import BatchUnpacker
from ...lora.job.parameter_transfer import ParameterTransfer
from ..adapters.adapter_passes import AdapterPasses
from ..shelled_core import Monitor


class ArrayAdapterPasses(AdapterPasses):
    """Passes of samples and batches, which take turns at one array."""

    engine: AdapterEngine

    def __init__(self, spec: InstantftSpec) -> None:
        self.sizes = self.mapping = mapping = spec.mapping
        urng = spec.noise.urng if spec.noise else None
        self.engine = AdapterEngine(mapping, spec.batch, urng, spec.early_stop)
        self.unpacker = BatchUnpacker(mapping, spec.batch)
        self.transfer = ParameterTransfer(mapping, reach(spec.address))

    @classmethod
    def monitor_of(cls, spec: InstantftSpec) -> Monitor:
        """Monitor of a row of adapters."""
        return Monitor(spec.mapping.words_per_cycle, parts=len(spec.turns + spec.beside) if spec.monitor else 0)

    def connect(self, m: Module) -> None:
        """Connect the engine's memories with what fills and reads them."""
        engine, transfer = self.engine, self.transfer
        wiring.connect(m, self.unpacker.rows, engine.rows)
        wiring.connect(m, transfer.parameters, engine.parameters)
        wiring.connect(m, transfer.adapters, engine.saved)
        m.d.comb += transfer.clearing.eq(engine.clearing)

    def show(self, m: Module, monitor: Any) -> None:
        """Show updates of the adapters."""
        updates = self.engine.updates
        m.d.comb += [
            monitor.valid.eq(updates.write),
            monitor.beat.eq(updates.address),
            monitor.data.eq(updates.beats),
        ]

    def work(self, m: Module, computing: Value, coming: Value) -> dict[str, Value]:
        """Whether each part is at work; the array does the work of one at most.

        words, pauses
            A new sample runs: a word of the frozen network goes into the array, or none does.
        forward, head
            Of a batch: a row of the adapters goes into the array, or the gradients at their hidden values are awaited.
        backward, update
            Behind them: a row goes into the array, or none while gradients leave and parameters are updated.
        gradients
            Updated parameters are written.
        record
            Outputs of a new sample are still to be packed.
        sample
            A new sample comes in.
        load
            The unpacker takes a beat of a sample, of a record, or of each.
        unpack
            Words are written to the batch memory.
        """
        engine, run, rows = self.engine, self.engine.batch, self.engine.backward.sequencer
        # the batch's gradients at the hidden values are known
        known = Signal()
        with m.If(run.labels_done):
            m.d.sync += known.eq(1)
        with m.If(run.done):
            m.d.sync += known.eq(0)
        word, row = engine.forward.array.port.enable, rows.enable | rows.base
        beats = [self.unpacker.samples, self.unpacker.records]
        beats += [self.unpacker.scales] if self.mapping.loads_apart else []
        return {
            "words": engine.running & word,
            "pauses": engine.running & ~word,
            "forward": computing & ~known & row,
            "head": computing & ~known & ~row,
            "backward": computing & known & row,
            "update": computing & known & ~row,
            "gradients": engine.updates.write.any(),
            "record": engine.forward.outputs.full.any(),
            "sample": coming,
            "load": Cat(one.valid & one.ready for one in beats).any(),
            "unpack": self.unpacker.rows.enable.any(),
        }
