"""RTL of `zostream`: the shell, and a trainer of transformers with its engine inside."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import reach
from ....golden.cores.zostream.registers import CORE, Command, Error
from ....golden.cores.zostream.zostream import STREAM_EPS_SHIFTS, ZostreamSpec
from ....golden.stream.instruction import INSTRUCTION_BEATS
from ....golden.stream.machine.program import HEADER_BEATS
from ....golden.zo.coefficient import LARGEST_BATCH, LARGEST_SHIFT
from ....golden.zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES
from ...primitives.registers import register
from ...stream.engine.stream_engine import StreamEngine
from ..memory_system import buses
from ..shell import Check, Control
from ..shelled_core import Monitor, ShelledCore
from .stream_trainer import MONITOR, StreamTrainer


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
        self.steps = StreamTrainer(spec)
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


class Zostream(ShelledCore):
    """The core, see `ShelledCore`; where a fault interrupts a command, program and deltas must be loaded again.

    Parameters
    ----------
    spec : ZostreamSpec
    monitor : Monitor, optional
    """

    def __init__(self, spec: ZostreamSpec, monitor: Monitor = MONITOR) -> None:
        self.spec = spec
        self._slopes = Signal((MOST_PERTURBATIONS**2).bit_length())
        super().__init__(spec, monitor)

    def trainer(self) -> TransformerTrainer:
        """Build the trainer inside."""
        return TransformerTrainer(self.spec)

    def prepare(self, m: Module, settings: wiring.PureInterface) -> None:
        """Multiply the perturbations of both parts, as in `zotrain`; the registers of settings reach far."""
        bits = MOST_PERTURBATIONS.bit_length()
        p1, p2 = (register(m, f"own_{name}", getattr(settings, name)[:bits]) for name in ("p1", "p2"))
        m.d.sync += self._slopes.eq(p1 * p2)

    def checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse a command."""
        load, train = command == Command.LOAD, command == Command.TRAIN
        job = train | (command == Command.INFER) | (command == Command.CACHE)
        most_beats = HEADER_BEATS + INSTRUCTION_BEATS * self.spec.operations
        beats, steps, count, batch = settings.program_beats, settings.steps, settings.sample_count, settings.batch
        position, eps, shift = settings.position, settings.eps_shift, settings.shift
        p1, p2 = settings.p1, settings.p2
        return [
            Check(load & (beats == 0), Error.ZERO_LENGTH, beats),
            Check(load & (beats > most_beats), Error["PROGRAM_LENGTH"], beats),
            Check(job & (steps == 0), Error.ZERO_LENGTH, steps),
            Check(job & (count == 0), Error.ZERO_LENGTH, count),
            Check(job & ((batch == 0) | (batch > LARGEST_BATCH)), Error.BAD_BATCH, batch),
            Check(train & (position >= self.spec.generator.period), Error.BAD_POSITION, position),
            Check(train & ((eps < STREAM_EPS_SHIFTS[0]) | (eps > STREAM_EPS_SHIFTS[-1])), Error.BAD_EPS, eps),
            Check(train & (shift > LARGEST_SHIFT), Error.BAD_SHIFT, shift),
            Check(train & ((p1 == 0) | (p1 > MOST_PERTURBATIONS)), Error.BAD_SPLIT, p1),
            Check(train & ((p2 == 0) | (p2 > MOST_PERTURBATIONS) | (self._slopes > MOST_SLOPES)), Error.BAD_SPLIT, p2),
            Check(train & (settings.gap > MOST_GAP), Error.BAD_SPLIT, settings.gap),
            Check(train & (settings.scalars > 1), Error.BAD_SPLIT, settings.scalars),
            Check(job & (settings.cached > 1), Error.BAD_SPLIT, settings.cached),
        ]
