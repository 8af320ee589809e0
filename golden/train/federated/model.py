"""A model in two parts, on integer weights: the losses of a step, with the first part's outputs used again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import UserError
from ..zo.weights import IntegerWeights
from .configuration import FederatedConfig
from .scalars import Moves, Scalars, StepLayout

Totals = tuple[Tensor, Tensor]
"""A sum of moves of both parts, see `Periodic.accumulate`."""


class SplitModel:
    """A Sequential, cut in two; each part is a vector of its own.

    Parameters
    ----------
    module : nn.Sequential
        On evaluation: no dropout, batch norm with the statistics that it has. All its parameters are tuned, in place.
    cut : int
        Layers of the first part; 0 for none.
    config : FederatedConfig

    Attributes
    ----------
    weights : tuple of IntegerWeights
        Of both parts.
    evaluations : list of int
        Samples that went through the first and the second part so far, in steps.

    Raises
    ------
    UserError
        If there is no such cut, the second part has no parameters, or a weight is outside the format.
    """

    def __init__(self, module: nn.Sequential, cut: int, config: FederatedConfig) -> None:
        if not 0 <= cut < len(module):
            raise UserError(f"cut = {cut}: a model of {len(module)} layers is cut at 0 to {len(module) - 1}")
        module.eval()
        self.module = module
        self.config = config
        self.parts = (module[:cut], module[cut:])
        if next(self.parts[1].parameters(), None) is None:
            raise UserError(f"cut = {cut}: no layer from there on has parameters")
        source, format = config.source, config.format
        self.weights = tuple(IntegerWeights(list(part.parameters()), source, format) for part in self.parts)
        spans = (source.span(self.weights[0].count), source.span(self.weights[1].count))
        self.layout = StepLayout(config.first, config.second, spans)
        self.evaluations = [0, 0]
        self.eps = self.weights[0].snap(config.eps)

    @property
    def count(self) -> int:
        """Parameters."""
        return sum(one.count for one in self.weights)

    def integers(self) -> Tensor:
        """A copy of all weights: (count,) of int32."""
        return torch.cat([one for part in self.weights for one in part.integers])

    def total(self, moves: tuple[Moves, Moves]) -> Totals:
        """The sum of moves, short."""
        return self.config.source.accumulate(moves[0]), self.config.source.accumulate(moves[1])

    def after(self, total: Totals) -> Tensor:
        """What `integers` would be with a sum of moves added; the weights stay."""
        found = []
        for weights, one in zip(self.weights, total, strict=True):
            table = self.config.source.table_of(one)
            for integers, offset in zip(weights.integers, weights.offsets, strict=False):
                found.append(integers.clone())
                table.add_(found[-1], 0, offset, 1)
        return torch.cat(found)

    def apply(self, total: Totals) -> None:
        """Add a sum of moves: one pass over the weights."""
        for weights, one in zip(self.weights, total, strict=True):
            weights.apply(self.config.source.table_of(one))

    @torch.no_grad()
    def step(self, inputs: Tensor, labels: Tensor, position: int) -> tuple[Scalars, float]:
        """One step (FedSPZO, algorithm 1); the weights move.

        Parameters
        ----------
        inputs : Tensor (n, *shape)
        labels : Tensor (n,)
        position : int
            Of its first perturbation.

        Returns
        -------
        Scalars
            What was moved, as it is sent.
        float
            Mean of all losses seen.

        Raises
        ------
        UserError
            If a loss is not finite, or the step does not fit 32 bits; the weights are where they were.
        """
        losses = [
            [self._side(inputs, labels, *where, sign) for sign in (1, -1)] for where in self.layout.positions(position)
        ]
        plus, minus = ([loss for pair in losses for loss in pair[side]] for side in (0, 1))
        if not all(map(isfinite, plus + minus)):
            raise UserError(f"a client's loss is {max(plus + minus)}: lower the rate or eps")
        scale = -self.config.rate / (2 * self.eps * self.layout.scalars)
        moved = [self.weights[0].coefficient(scale * (a - b)) for a, b in zip(plus, minus, strict=True)]
        scalars = Scalars.of(moved)
        moves = self.layout.moves(position, [scalars])
        # before any of them is made: one that overflows is refused
        if (largest := max(abs(coefficient) for part in moves for _, coefficient in part)) >= 1 << 31:
            raise UserError(f"a step moves by {largest}, beyond 32 bits: lower the rate")
        for weights, part in zip(self.weights, moves, strict=True):
            for at, coefficient in part:
                weights.add(at, coefficient * weights.resolution)
        return scalars, sum(plus + minus) / len(plus + minus)

    def _side(self, inputs: Tensor, labels: Tensor, first: int, second: list[int], sign: int) -> list[float]:
        """Losses on one side of a perturbation of the first part; only one intermediate output is kept at a time."""
        with self._moved(0, first, sign):
            between = self.parts[0](inputs)
        self.evaluations[0] += len(inputs)
        losses = []
        for position in second:
            with self._moved(1, position, sign):
                losses.append(float(functional.cross_entropy(self.parts[1](between), labels)))
            self.evaluations[1] += len(inputs)
        return losses

    @contextmanager
    def _moved(self, part: int, position: int, sign: int) -> Iterator[None]:
        self.weights[part].add(position, sign * self.eps)
        try:
            yield
        finally:
            self.weights[part].add(position, -sign * self.eps)
