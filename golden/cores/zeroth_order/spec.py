"""Spec of a core that trains by zeroth order: the trainer's part."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from operator import or_
from typing import Any, ClassVar

from ...rng.generators import Generator
from ...zo.coefficient import LARGEST_BATCH, LARGEST_SHIFT
from ...zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES
from ...zo.step_settings import EPS_SHIFTS
from ..core import Check, CoreSpec
from .registers import Command, Error


@dataclass(frozen=True, kw_only=True)
class ZerothOrderSpec(CoreSpec):
    """Trainer's part of the spec of a core with `step_settings`, without parameters of its own."""

    jobs: ClassVar[tuple[IntEnum, ...]]
    """Commands that read samples, `Command.TRAIN` first."""
    eps_shifts: ClassVar[Sequence[int]] = EPS_SHIFTS
    """Allowed shifts of eps."""

    @property
    @abstractmethod
    def source(self) -> Generator:
        """Generator of the perturbations."""

    @property
    def largest_batch(self) -> int:
        """Maximum number of samples in a step."""
        return LARGEST_BATCH

    def tuned(self, parameters: int) -> str:
        return f"all {parameters:,} parameters, by zeroth order"

    def products(self, settings: Any) -> dict[str, Any]:
        """Number of projected gradients of a step, for `checks`."""
        return {"slopes": settings.p1 * settings.p2}

    def checks(self, command: Any, settings: Any) -> Iterator[Check]:
        train = command == Command.TRAIN
        job = reduce(or_, (command == other for other in self.jobs[1:]), train)
        batch, eps, p1, p2 = settings.batch, settings.eps_shift, settings.p1, settings.p2
        least, most = self.eps_shifts[0], self.eps_shifts[-1]
        wrong = [(value == 0) | (value > MOST_PERTURBATIONS) for value in (p1, p2)]
        yield Check(job & (settings.steps == 0), Error.ZERO_LENGTH, settings.steps)
        yield Check(job & (settings.sample_count == 0), Error.ZERO_LENGTH, settings.sample_count)
        yield Check(job & ((batch == 0) | (batch > LARGEST_BATCH)), Error.BAD_BATCH, batch)
        yield Check(train & (settings.position >= self.source.period), Error.BAD_POSITION, settings.position)
        yield Check(train & ((eps < least) | (eps > most)), Error.BAD_EPS, eps)
        yield Check(train & (settings.shift > LARGEST_SHIFT), Error.BAD_SHIFT, settings.shift)
        yield from self.cut_checks(train, settings)
        yield Check(train & wrong[0], Error.BAD_SPLIT, p1)
        together = self.uncut(settings) | (settings.slopes > MOST_SLOPES)
        yield Check(train & (wrong[1] | together), Error.BAD_SPLIT, p2)
        yield Check(train & (settings.gap > MOST_GAP), Error.BAD_SPLIT, settings.gap)
        yield Check(train & (settings.scalars > 1), Error.BAD_SPLIT, settings.scalars)
        yield from self.pass_checks(job, settings)

    def cut_checks(self, train: Any, settings: Any) -> Iterator[Check]:
        """The engine's reasons to refuse the cut of a training; none by default."""
        yield from ()

    def uncut(self, settings: Any) -> Any:
        """Whether the second part has several perturbations although the cut is 0; False if the cut is no setting."""
        return False

    def pass_checks(self, job: Any, settings: Any) -> Iterator[Check]:
        """The engine's reasons to refuse the passes of a job; none by default."""
        yield from ()
