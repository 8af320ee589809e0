"""Cut of a forward engine: outputs before the cut are recorded, and restored for passes of the later stages."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import Member

from ....golden.nn.array.mapping import Mapping
from ...primitives.pipeline import delayed
from ..memories.cut_memory import CutMemory, OwnRows, SharedRows
from ..sample_buffers import SampleBuffers
from ..sequencer import Sequencer
from .outputs import OutputWrite, StageOutput


class Cut:
    """Cut memory between the outputs of stages and the activation memory.

    Parameters
    ----------
    mapping : Mapping
        With ``sides=2``.
    rows : OwnRows or SharedRows
        Rows of the memory.

    Attributes
    ----------
    ports : dict of str to Member
        Ports added to the engine:

        cut : Out, `CutRows`, only with `SharedRows`
            Shared memory.
    """

    def __init__(self, mapping: Mapping, rows: OwnRows | SharedRows) -> None:
        self.memory = CutMemory(mapping, rows)
        self.ports: dict[str, Member] = {"cut": rows.ports["rows"]} if rows.ports else {}

    def restore(
        self, m: Module, engine: wiring.Component, buffers: SampleBuffers, sequencer: Sequencer, outputs: StageOutput
    ) -> OutputWrite:
        """Add the memory; returns the write of outputs, or of restored outputs in free cycles."""
        passes, made = engine.passes, outputs.write
        m.submodules.cut_memory = cut = self.memory
        # no pass follows while samples are held
        m.d.sync += cut.free.eq(sequencer.consumed & passes.restore & ~engine.hold)
        m.d.comb += [
            cut.cut.eq(passes.cut),
            cut.recording.eq(passes.record),
            cut.restart.eq(passes.restart),
            cut.begin.eq(outputs.begin),
            cut.final.eq(delayed(m, sequencer.final, outputs.latency, "cut_final")),
            cut.write.eq(made.write),
            cut.mask.eq(made.mask),
            cut.address.eq(made.address),
            cut.values.eq(made.values),
            cut.taken.eq(buffers.begin & buffers.restore),
            cut.ready.eq(~made.write),
            buffers.restored.eq(cut.restored),
        ]
        for name in self.ports:
            wiring.connect(m, cut.rows, wiring.flipped(getattr(engine, name)))
        return OutputWrite(
            made.write | cut.o_valid,
            Mux(made.write, made.mask, cut.o_mask),
            Mux(made.write, made.address, cut.o_address),
            Mux(made.write, made.values, cut.o_values.as_value()),
        )
