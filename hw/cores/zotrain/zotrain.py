"""RTL of `zotrain`: the shell, and the zeroth-order trainer inside."""

from collections.abc import Sequence

from amaranth.hdl import Array, Module, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.cores.zotrain.registers import CORE, Command, Error
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.zo.coefficient import LARGEST_BATCH, LARGEST_SHIFT
from ....golden.zo.job import EPS_SHIFTS
from ....golden.zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES
from ...axi.bus import Lite
from ..memory_system import buses
from ..monitor import monitor_ports
from ..shell import Check, Shell
from .zeroth_order_engine import ZerothOrderEngine


class Zotrain(wiring.Component):
    """Runs a command at a time: refuses it at once where its settings are wrong, and otherwise runs it to its end.

    After a fault, the traffic on the bus is drained, then all but the registers and the contents of memories is reset;
    where training was interrupted, the deltas must be loaded again.

    Parameters
    ----------
    spec : ZotrainSpec

    Attributes
    ----------
    control : In, `Lite`
        The host's AXI4-Lite bus.
    interrupt : Out(1)
        Level: a command has ended.
    reader0, writer0 : Out, `Read` and `Write`
        AXI4 port to the memory outside.
    monitor_valid, monitor_beat, monitor_data, monitor_done : Out, where the spec has a monitor
        See `UpdateMonitor`.
    """

    def __init__(self, spec: ZotrainSpec) -> None:
        self.spec = spec
        self._slopes = Signal((MOST_PERTURBATIONS**2).bit_length())
        monitor = monitor_ports(spec.layout.row_beats) if spec.monitor else {}
        super().__init__({"control": In(Lite()), "interrupt": Out(1), **buses(1, spec.address), **monitor})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.shell = shell = Shell(CORE, spec.signature, self._checks, spec.address)
        trainer = ZerothOrderEngine(spec)
        m.submodules.trainer = ResetInserter(shell.clear)(trainer)
        wiring.connect(m, wiring.flipped(self.control), shell.bus)
        wiring.connect(m, shell.control, trainer.control)
        for bus in buses(1, spec.address):
            wiring.connect(m, getattr(trainer, bus), wiring.flipped(getattr(self, bus)))
        m.d.comb += self.interrupt.eq(shell.interrupt)
        # a register of its own, or it would be on the slowest path: settings do not change while they are checked
        settings, bits = shell.control.settings, MOST_PERTURBATIONS.bit_length()
        m.d.sync += self._slopes.eq(settings.p1[:bits] * settings.p2[:bits])
        for name in trainer.monitor.signature.members if spec.monitor else ():
            m.d.comb += getattr(self, f"monitor_{name}").eq(getattr(trainer.monitor, name))
        return m

    def _checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """Reasons to refuse a command."""
        train, infer = command == Command.TRAIN, command == Command.INFER
        job = train | infer
        steps, count, batch = settings.steps, settings.sample_count, settings.batch
        position, eps, shift = settings.position, settings.eps_shift, settings.shift
        return [
            Check(job & (steps == 0), Error.ZERO_LENGTH, steps),
            Check(job & (count == 0), Error.ZERO_LENGTH, count),
            Check(job & ((batch == 0) | (batch > LARGEST_BATCH)), Error.BAD_BATCH, batch),
            Check(train & (position >= self.spec.source.period), Error.BAD_POSITION, position),
            Check(train & ((eps < EPS_SHIFTS[0]) | (eps > EPS_SHIFTS[-1])), Error.BAD_EPS, eps),
            Check(train & (shift > LARGEST_SHIFT), Error.BAD_SHIFT, shift),
            *self._split_checks(train, settings),
        ]

    def _split_checks(self, train: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """Reasons to refuse the perturbations of a step."""
        spec, cut, batch = self.spec, settings.cut, settings.batch
        cuts = len(spec.mapping.forward.stages) if spec.cut_rows else 1
        most = Array(spec.kept_samples(stage) if stage else LARGEST_BATCH for stage in range(cuts))
        p1, p2 = settings.p1, settings.p2
        wrong = [(count == 0) | (count > MOST_PERTURBATIONS) for count in (p1, p2)]
        several = (p2 != 1) & (cut == 0)
        # values out of range are refused by another check
        samples, stage = batch[: LARGEST_BATCH.bit_length()], cut[: (cuts - 1).bit_length()]
        return [
            Check(train & (cut >= cuts), Error.BAD_CUT, cut),
            Check(train & (samples > most[stage]), Error.BAD_BATCH, batch),
            Check(train & wrong[0], Error.BAD_SPLIT, p1),
            Check(train & (wrong[1] | several | (self._slopes > MOST_SLOPES)), Error.BAD_SPLIT, p2),
            Check(train & (settings.gap > MOST_GAP), Error.BAD_SPLIT, settings.gap),
            Check(train & (settings.scalars > 1), Error.BAD_SPLIT, settings.scalars),
        ]
