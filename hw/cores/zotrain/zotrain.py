"""RTL of `zotrain`: the shell, and the zeroth-order trainer inside."""

from collections.abc import Sequence

from amaranth.hdl import Array, Module, Signal, Value
from amaranth.lib import wiring

from ....golden.cores.zotrain.registers import Command, Error
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.zo.coefficient import LARGEST_BATCH, LARGEST_SHIFT
from ....golden.zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES
from ....golden.zo.step_settings import EPS_SHIFTS
from ..shell import Check
from ..shelled_core import ShelledCore
from .zeroth_order_engine import ZerothOrderEngine


class Zotrain(ShelledCore):
    """The core, see `ShelledCore`; where a fault interrupts training, the deltas must be loaded again.

    Parameters
    ----------
    spec : ZotrainSpec
    """

    def __init__(self, spec: ZotrainSpec) -> None:
        self.spec = spec
        self._slopes = Signal((MOST_PERTURBATIONS**2).bit_length())
        super().__init__(spec, spec.layout.row_beats)

    def trainer(self) -> ZerothOrderEngine:
        """Build the trainer inside."""
        return ZerothOrderEngine(self.spec)

    def prepare(self, m: Module, settings: wiring.PureInterface) -> None:
        """Multiply the perturbations of both parts.

        In a register of its own, or it would be on the slowest path: settings do not change while they are checked.
        """
        bits = MOST_PERTURBATIONS.bit_length()
        m.d.sync += self._slopes.eq(settings.p1[:bits] * settings.p2[:bits])

    def checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse a command."""
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
