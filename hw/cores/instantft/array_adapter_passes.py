"""Passes on the array, for the trainer of adapters: a frozen network and its adapters on the chip."""

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
    """Passes of samples and batches, alternately on one array."""

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
        """Connect the engine's memories to unpacker and transfer."""
        engine, transfer = self.engine, self.transfer
        wiring.connect(m, self.unpacker.rows, engine.rows)
        wiring.connect(m, transfer.parameters, engine.parameters)
        wiring.connect(m, transfer.adapters, engine.saved)
        m.d.comb += transfer.clearing.eq(engine.clearing)

    def show(self, m: Module, monitor: Any) -> None:
        """Drive the monitor with updates of the adapters."""
        updates = self.engine.updates
        m.d.comb += [
            monitor.valid.eq(updates.write),
            monitor.beat.eq(updates.address),
            monitor.data.eq(updates.beats),
        ]

    def work(self, m: Module, computing: Value, coming: Value) -> dict[str, Value]:
        """Activity of each part; at most one of the first six, which use the array, is high.

        words, pauses
            A new sample runs: cycles with and without a word into the array.
        forward, head
            A batch before its hidden values' gradients: cycles with and without a row into the array.
        backward, update
            A batch after these gradients: cycles with and without a row into the array.
        gradients
            Updated parameters are written.
        record
            Outputs of a new sample are not yet packed.
        sample
            A new sample arrives.
        load
            The unpacker takes a beat of a sample, of a record, or of both.
        unpack
            Words are written to the batch memory.
        """
        engine, run, rows = self.engine, self.engine.batch, self.engine.backward.sequencer
        # the batch's gradients of hidden values are complete
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
            "load": Cat(source.valid & source.ready for source in beats).any(),
            "unpack": self.unpacker.rows.enable.any(),
        }
