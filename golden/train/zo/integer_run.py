"""Run of a zeroth-order job in the hardware's integers: its steps, curve and result, whatever the model is."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ...fixed import Q4_12
from ...zo.job import ZerothOrderJob, ZerothOrderStep
from .delta_file import Delta
from .finetune import StepProgress, ZoResult, ZoSettings
from .integer import ZerothOrderProgress
from .periodic import Periodic


class IntegerRun(ABC):
    """Fine-tuning run in integers, forward pass included; as `FineTuning` in use.

    Attributes
    ----------
    settings : ZoSettings
    source : Periodic
    """

    settings: ZoSettings
    source: Periodic

    @property
    @abstractmethod
    def job(self) -> ZerothOrderJob:
        """The job."""

    @property
    @abstractmethod
    def trained_parameters(self) -> int:
        """Number of parameters that are tuned."""

    @property
    @abstractmethod
    def saturations(self) -> int:
        """Number of values clipped so far, including the conversion."""

    @abstractmethod
    def take_steps(self, progress: ZerothOrderProgress) -> None:
        """Take all steps."""

    @abstractmethod
    def accuracy(self) -> float:
        """Fraction of held-out samples that the model as tuned so far classifies correctly."""

    @abstractmethod
    def held_out_loss(self) -> float:
        """Mean cross entropy of the held-out samples by the model as tuned so far."""

    @abstractmethod
    def tensors(self) -> Mapping[str, NDArray[np.generic]]:
        """Tensors of the user's model, tuned, by his names."""

    @abstractmethod
    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        """Sum of the updates so far, with other metadata of the run's start."""

    def run(self, progress: StepProgress | None = None, watch: int = 0) -> ZoResult:
        """Run all steps.

        Parameters
        ----------
        progress : callable, optional
        watch : int
            Steps between two tests on held-out samples; 0 for one test at the end.
        """
        curve = [(0, self.accuracy())]
        losses: list[float] = []
        seconds, started = 0.0, time.perf_counter()

        def after(number: int, step: list[ZerothOrderStep]) -> None:
            nonlocal seconds, started
            seconds += time.perf_counter() - started
            losses.append(float(np.mean([loss_of(slope) for slope in step])))
            accuracy = None
            if number == self.settings.schedule.steps or (watch and number % watch == 0):
                accuracy = self.accuracy()
                curve.append((number, accuracy))
            if progress:
                progress(number, losses[-1], accuracy)
            started = time.perf_counter()

        self.take_steps(after)
        return ZoResult(
            self.settings.engine or "golden",
            losses,
            curve,
            seconds,
            self.source.spec.period,
            dict(self.tensors()),
            self.trained_parameters,
            self.saturations,
        )

    def replay(self, slopes: Sequence[ZerothOrderStep]) -> None:
        """Take the moves of other records of all steps, such as a core's, instead of the run's own."""
        job = self.job
        job.total = np.zeros_like(job.total)
        for step in self.settings.split.steps(slopes):
            # a step begins with a perturbation of the first part, if there is one
            job.position = (step[0].position - job.layout.spans[0]) % job.source.period
            job.move([slope.coefficient for slope in step])


def loss_of(step: ZerothOrderStep) -> float:
    """Mean cross entropy of both sides of a step, from probabilities of at least a last place."""
    return float(-np.log(Q4_12.to_float(np.maximum(step.probabilities, 1))).mean())
