"""Transformer in the hardware's integers as a model of a federation: the job's steps are a client's steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import UserError
from ...fixed import Q8_16, Integers
from ...stream.transformer_model import TransformerModel
from ...zo.deltas import DELTA
from ...zo.job import ZerothOrderJob
from ...zo.scalars import Moves, Scalars
from ...zo.split import Split
from ...zo.step_settings import StepSettings
from ..metrics import accuracy, cross_entropy
from ..zo.integer import eps_shift_of, loss_of
from ..zo.transformer_tuning import LARGEST_EPS
from .configuration import FederatedConfig
from .federated_model import Totals

_AT_ONCE = 64
"""Samples in one forward pass."""


class JobModel:
    """Transformer with the steps of the integer job, forward pass included; see `FederatedModel`.

    All clients of a process share the frozen parameters of `model`. `cut` is the first operation of the second part, 0
    for an uncut model: P1 then counts the perturbations of a step, and P2 is 1. `inputs_of` maps samples to inputs of
    the model, as sentences to tokens.

    Raises
    ------
    UserError
        If the model cannot be cut there, or the hardware's integers cannot run the config.
    """

    def __init__(
        self, model: TransformerModel, cut: int, config: FederatedConfig, inputs_of: Callable[[Any], Integers]
    ) -> None:
        if config.eps > LARGEST_EPS:
            raise UserError(f"eps = {config.eps:g}: a transformer's slope is true up to {LARGEST_EPS}: take 2**-10")
        self.model, self.config, self.inputs_of = model, config, inputs_of
        self._settings = StepSettings(
            eps_shift=eps_shift_of(config.eps), split=Split(cut, config.first, config.second), scalars=True
        )
        self.job = ZerothOrderJob(model, config.source.spec, self._settings)
        self.layout = self.job.layout
        self.evaluations = [0, 0]

    def copy(self) -> JobModel:
        model = JobModel(self.model, self._settings.split.cut, self.config, self.inputs_of)
        model.job.total = self.job.total.copy()
        return model

    def prepared(self, samples: Any) -> tuple[Integers, Integers]:
        return self.inputs_of(samples), samples.labels

    def integers(self) -> Tensor:
        """Copy of both parts' delta tables, and of all weights with the deltas added, (count,) of int32."""
        return _integers(self.job)

    def total(self, moves: tuple[Moves, Moves]) -> Totals:
        return self.config.source.accumulate(moves[0]), self.config.source.accumulate(moves[1])

    def after(self, total: Totals) -> Tensor:
        model = self.copy()
        model.apply(total)
        return model.integers()

    def apply(self, total: Totals) -> None:
        moves = np.stack([part.numpy() for part in total]) if self._settings.split.cut else total[1].numpy()
        self.job.total = (self.job.total.astype(np.int32) + moves).astype(np.int64)

    def step(self, inputs: Integers, labels: Integers, position: int) -> tuple[Scalars, float]:
        """Run one step and update the deltas, see `FederatedModel.step`.

        Raises
        ------
        UserError
            If a coefficient is clipped: the deltas then differ from the message.
        """
        job, config = self.job, self.config
        perturbation = job.parts[0].deltas.perturbation
        (rate,), job.settings = self._settings.with_rates([config.rate], [len(labels)], perturbation)
        job.position = position % job.source.period
        slopes = job.step(inputs, labels, rate)
        if job.coefficients_clipped:
            raise UserError("a step's coefficient is clipped to 27 bits: lower the rate")
        self.evaluations[0] += 2 * len(labels) * config.first * (self._settings.split.cut > 0)
        self.evaluations[1] += 2 * len(labels) * len(slopes)
        loss = float(np.mean([loss_of(slope) for slope in slopes]))
        return Scalars.of([slope.coefficient for slope in slopes]), loss

    def evaluated(self, samples: Any) -> tuple[float, float]:
        inputs, labels = self.prepared(samples)
        groups = range(0, len(labels), _AT_ONCE)
        logits = Q8_16.to_float(np.concatenate([self.job.logits(inputs[start : start + _AT_ONCE]) for start in groups]))
        return cross_entropy(logits, labels), accuracy(logits, labels)


def _integers(job: ZerothOrderJob) -> Tensor:
    """Deltas of a job in `DELTA`, and the weights with the deltas added."""
    arrays = [job.total]
    for tuned, offsets in zip(job.parts, job.offsets(), strict=True):
        assert isinstance(tuned.part, TransformerModel)
        parameters = tuned.part.parameters(offsets)
        arrays += [parameters[name] for name in parameters if name[0] in tuned.part.operations]
    assert DELTA.width <= 32
    return torch.from_numpy(np.concatenate([values.astype(np.int32).reshape(-1) for values in arrays]))
