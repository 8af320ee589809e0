"""Contract of a model in a federation: steps along perturbations, and sums of their moves in short tables."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Protocol, Self

from torch import Tensor

from ...fixed import Integers
from ...zo.scalars import Moves, Scalars, StepLayout
from .configuration import FederatedConfig

Totals = tuple[Tensor, Tensor]
"""Sums of moves of both parts, see `Periodic.accumulate`; an uncut model has 0 as the first."""


class LabelledSamples(Sized, Protocol):
    """Samples of a client with any kind of inputs; indexing selects samples."""

    @property
    def labels(self) -> Integers: ...

    def __getitem__(self, which: Integers) -> Self: ...


class FederatedModel(Protocol):
    """Model of a server or of a program's client, see `model.SplitModel` and `job_model.JobModel`.

    Attributes
    ----------
    layout : StepLayout
        Positions of the perturbations of a step.
    evaluations : list of int
        Samples evaluated so far by the first and by the second part.
    """

    config: FederatedConfig
    layout: StepLayout
    evaluations: list[int]

    def copy(self) -> Self:
        """Copy of the model in its present state, with nothing evaluated."""

    def prepared(self, samples: Any) -> tuple[Any, Any]:
        """Inputs and labels of samples, as arguments of `step`."""

    def integers(self) -> Tensor:
        """Copy of all weights, and of the state that decides them, (count,) of int32."""

    def total(self, moves: tuple[Moves, Moves]) -> Totals:
        """Sums of moves of both parts, as short tables."""

    def after(self, total: Totals) -> Tensor:
        """`integers` with a sum of moves added; the weights are not changed."""

    def apply(self, total: Totals) -> None:
        """Add a sum of moves to the weights in one pass."""

    def step(self, inputs: Any, labels: Any, position: int) -> tuple[Scalars, float]:
        """Run a step (FedSPZO, algorithm 1) from a position on, and update the weights.

        Returns the scalars of the update, as in the message, and the mean of all evaluated losses.

        Raises
        ------
        UserError
            If a loss is not finite, or the step does not fit the integers.
        """

    def evaluated(self, samples: Any) -> tuple[float, float]:
        """Mean cross entropy and accuracy on samples."""
