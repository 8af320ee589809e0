"""RTL of a core that trains by zeroth order: what it refuses, with any engine."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, ClassVar

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import wiring

from ....golden.cores.zeroth_order.registers import Command, Error
from ....golden.zo.coefficient import LARGEST_BATCH, LARGEST_SHIFT
from ....golden.zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES
from ..shell import Check
from ..shelled_core import Monitor, ShelledCore
from .forward_passes import ForwardPasses


class ShelledZerothOrder(ShelledCore):
    """A core whose spec is a `ZerothOrderSpec`, see `ShelledCore`.

    Parameters
    ----------
    spec : ZerothOrderSpec
    monitored : Monitor or int
        See `ShelledCore`.
    """

    passes: ClassVar[type[ForwardPasses]]
    """Those of its engine."""

    def __init__(self, spec: Any, monitored: Monitor | int) -> None:
        self.spec = spec
        self._slopes = Signal((MOST_PERTURBATIONS**2).bit_length())
        super().__init__(spec, monitored)

    def prepare(self, m: Module, settings: wiring.PureInterface) -> None:
        """Multiply the perturbations of both parts.

        In a register of its own, or it would be on the slowest path: settings do not change while they are checked.
        """
        p1, p2 = self.passes.perturbations(m, settings)
        m.d.sync += self._slopes.eq(p1 * p2)

    def checks(self, command: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse a command."""
        spec, train = self.spec, command == Command.TRAIN
        job = reduce(or_, (command == other for other in spec.jobs[1:]), train)
        steps, count, batch = settings.steps, settings.sample_count, settings.batch
        position, eps, shift, p1, p2 = (
            getattr(settings, name) for name in ("position", "eps_shift", "shift", "p1", "p2")
        )
        least, most = spec.eps_shifts[0], spec.eps_shifts[-1]
        wrong = [(value == 0) | (value > MOST_PERTURBATIONS) for value in (p1, p2)]
        return [
            Check(job & (steps == 0), Error.ZERO_LENGTH, steps),
            Check(job & (count == 0), Error.ZERO_LENGTH, count),
            Check(job & ((batch == 0) | (batch > LARGEST_BATCH)), Error.BAD_BATCH, batch),
            Check(train & (position >= spec.source.period), Error.BAD_POSITION, position),
            Check(train & ((eps < least) | (eps > most)), Error.BAD_EPS, eps),
            Check(train & (shift > LARGEST_SHIFT), Error.BAD_SHIFT, shift),
            *self.cut_checks(train, settings),
            Check(train & wrong[0], Error.BAD_SPLIT, p1),
            Check(train & (wrong[1] | self.uncut(settings) | (self._slopes > MOST_SLOPES)), Error.BAD_SPLIT, p2),
            Check(train & (settings.gap > MOST_GAP), Error.BAD_SPLIT, settings.gap),
            Check(train & (settings.scalars > 1), Error.BAD_SPLIT, settings.scalars),
            *self.pass_checks(job, settings),
        ]

    def cut_checks(self, train: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the engine's reasons to refuse the cut of a training; none by default."""
        return ()

    def uncut(self, settings: wiring.PureInterface) -> Value:
        """Whether a second part has perturbations that there is not, where a setting says that."""
        return Const(0)

    def pass_checks(self, job: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the engine's reasons to refuse the passes of a job; none by default."""
        return ()
