"""Sequencer connected with the stream engine."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import reach
from ...stream.engine.stream_engine import StreamEngine
from ..memory_system import buses
from ..shell import Control
from ..shelled_core import Monitor
from ..zeroth_order.sequencer import ZerothOrderSequencer


class StreamedTrainer(wiring.Component):
    """Connects a sequencer and the stream engine.

    Parameters
    ----------
    sequencer : ZerothOrderSequencer
        Its passes are `StreamPasses`.
    monitor : Monitor

    Attributes
    ----------
    control : In, `Control`
        Interface of the shell.
    reader0, writer0, reader1, writer1 : Out, `Read` and `Write`
        AXI4 ports to the external memory.
    monitor : Out, `Monitor`
        Updates of the deltas, and the active operation.
    """

    def __init__(self, sequencer: ZerothOrderSequencer, monitor: Monitor) -> None:
        self.steps, spec = sequencer, sequencer.spec
        self.engine = StreamEngine(spec.engine, spec.sequencer, spec.offsets, reach(spec.address))
        control = Control(spec.registers, spec.address)
        super().__init__({"control": In(control), **buses(spec.ports, spec.address), "monitor": Out(monitor)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.steps, m.submodules.engine = self.steps, self.engine
        wiring.connect(m, wiring.flipped(self.control), self.steps.control)
        wiring.connect(m, self.steps.engine, self.engine.port)
        for bus in buses(self.steps.spec.ports):
            wiring.connect(m, getattr(self.steps, bus), wiring.flipped(getattr(self, bus)))
        self.show(m)
        return m

    def show(self, m: Module) -> None:
        """Drive the monitor."""
        wiring.connect(m, self.steps.monitor, wiring.flipped(self.monitor))
