"""RTL of `zostream`: the shell, and a trainer of transformers with its engine inside."""

from collections.abc import Sequence

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import reach
from ....golden.cores.zostream.registers import CORE, Command, Error
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.stream.instruction import INSTRUCTION_BEATS
from ....golden.stream.machine.program import HEADER_BEATS
from ...stream.engine.stream_engine import StreamEngine
from ..memory_system import buses
from ..shell import Check, Control
from ..shelled_core import Monitor
from ..zeroth_order.sequencer import ZerothOrderSequencer
from ..zeroth_order.shelled_zeroth_order import ShelledZerothOrder
from .stream_passes import MONITOR, StreamPasses


class TransformerTrainer(wiring.Component):
    """The trainer and the engine that runs its programs.

    Parameters
    ----------
    spec : ZostreamSpec
    monitor : Monitor, optional

    Attributes
    ----------
    control : In, `Control`
        The shell.
    reader0, writer0, reader1, writer1 : Out, `Read` and `Write`
        AXI4 ports to the memory outside.
    monitor : Out, `Monitor`
        Updates of the deltas, and the operation at work.
    """

    def __init__(self, spec: ZostreamSpec, monitor: Monitor = MONITOR) -> None:
        self.steps = ZerothOrderSequencer(spec, StreamPasses(spec))
        engine = spec.engine
        self.engine = StreamEngine(engine, spec.sequencer, spec.offsets, reach(spec.address))
        super().__init__(
            {"control": In(Control(CORE, spec.address)), **buses(spec.ports, spec.address), "monitor": Out(monitor)}
        )

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
        """Give the monitor what it shows."""
        wiring.connect(m, self.steps.monitor, wiring.flipped(self.monitor))


class Zostream(ShelledZerothOrder):
    """The core, see `ShelledCore`; where a fault interrupts a command, program and deltas must be loaded again.

    Parameters
    ----------
    spec : ZostreamSpec
    monitor : Monitor, optional
    """

    passes = StreamPasses

    def __init__(self, spec: ZostreamSpec, monitor: Monitor = MONITOR) -> None:
        super().__init__(spec, monitor)

    def trainer(self) -> TransformerTrainer:
        """Build the trainer inside."""
        return TransformerTrainer(self.spec)

    def checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse a command."""
        load, beats = command == Command.LOAD, settings.program_beats
        most_beats = HEADER_BEATS + INSTRUCTION_BEATS * self.spec.operations
        return [
            Check(load & (beats == 0), Error["ZERO_LENGTH"], beats),
            Check(load & (beats > most_beats), Error["PROGRAM_LENGTH"], beats),
            *super().checks(command, settings),
        ]

    def pass_checks(self, job: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse the passes of a job."""
        return [Check(job & (settings.cached > 1), Error["BAD_SPLIT"], settings.cached)]
