"""Model cut in two parts with integer weights; a step reuses outputs of the first part."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...datasets.dataset import Samples
from ...errors import UserError
from ...zo.scalars import Moves, Scalars, StepLayout
from ..metrics import accuracy, cross_entropy
from ..zo.weights import IntegerWeights
from .configuration import FederatedConfig
from .federated_model import Totals


class SplitModel:
    """Sequential cut in two parts, each with a vector of integer weights; see `FederatedModel`.

    The module is set to evaluation mode (no dropout, fixed batch norm) and tuned in place. `cut` is the number of
    layers of the first part; `weights` are those of both parts.

    Raises
    ------
    UserError
        If the cut is out of range, the second part has no parameters, a weight is outside the format, or the parameters
        do not fit the config's order.
    """

    def __init__(self, module: nn.Sequential, cut: int, config: FederatedConfig) -> None:
        if not 0 <= cut < len(module):
            raise UserError(f"cut = {cut}: a model of {len(module)} layers is cut at 0 to {len(module) - 1}")
        module.eval()
        self.module, self.cut = module, cut
        self.config = config
        self.parts = (module[:cut], module[cut:])
        if next(self.parts[1].parameters(), None) is None:
            raise UserError(f"cut = {cut}: no layer from there on has parameters")
        source, format = config.source, config.format
        tensors = [list(part.parameters()) for part in self.parts]
        self.weights: tuple[IntegerWeights, ...]
        if config.order is None:
            self.weights = tuple(IntegerWeights(tensors_of_part, source, format) for tensors_of_part in tensors)
            spans = (source.span(self.weights[0].count), source.span(self.weights[1].count))
            self.layout = StepLayout(config.first, config.second, spans)
        else:
            self.weights = tuple(
                config.order.weights(tensors_of_part, number, source, format)
                for number, tensors_of_part in enumerate(tensors)
            )
            self.layout = config.split.layout(config.order.mapping, source.spec.period)
        self.evaluations = [0, 0]
        self.eps = self.weights[0].snap(config.eps)

    @property
    def count(self) -> int:
        return sum(weights.count for weights in self.weights)

    def copy(self) -> SplitModel:
        return SplitModel(copy.deepcopy(self.module), self.cut, self.config)

    def prepared(self, samples: Samples) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(samples.values()), torch.from_numpy(samples.labels)

    def evaluated(self, samples: Samples) -> tuple[float, float]:
        return evaluated(self.module, samples)

    def integers(self) -> Tensor:
        return torch.cat([integers for part in self.weights for integers in part.integers])

    def total(self, moves: tuple[Moves, Moves]) -> Totals:
        return self.config.source.accumulate(moves[0]), self.config.source.accumulate(moves[1])

    def after(self, total: Totals) -> Tensor:
        tensors = []
        for weights, sum_of_part in zip(self.weights, total, strict=True):
            table = self.config.source.table_of(sum_of_part)
            for integers, offset in zip(weights.integers, weights.offsets, strict=False):
                tensors.append(integers.clone())
                table.add_(tensors[-1], 0, offset, 1)
        return torch.cat(tensors)

    def apply(self, total: Totals) -> None:
        for weights, sum_of_part in zip(self.weights, total, strict=True):
            weights.apply(self.config.source.table_of(sum_of_part))

    @torch.no_grad()
    def step(self, inputs: Tensor, labels: Tensor, position: int) -> tuple[Scalars, float]:
        r"""Run one step on inputs (n, \*shape) and labels (n,), see `FederatedModel.step`.

        Raises
        ------
        UserError
            If a loss is not finite, or the step does not fit 32 bits; the weights are then unchanged.
        """
        losses = [
            [self._side(inputs, labels, *positions, sign) for sign in (1, -1)]
            for positions in self.layout.positions(position)
        ]
        plus, minus = ([loss for pair in losses for loss in pair[side]] for side in (0, 1))
        if not all(map(isfinite, plus + minus)):
            raise UserError(f"a client's loss is {max(plus + minus)}: lower the rate or eps")
        scale = -self.config.rate / (2 * self.eps * self.layout.scalars)
        coefficients = [self.weights[0].coefficient(scale * (a - b)) for a, b in zip(plus, minus, strict=True)]
        scalars = Scalars.of(coefficients)
        moves = self.layout.moves(position, [scalars])
        # checked before the first update: an overflow leaves the weights as they were
        if (largest := max(abs(coefficient) for part in moves for _, coefficient in part)) >= 1 << 31:
            raise UserError(f"a step moves by {largest}, beyond 32 bits: lower the rate")
        for weights, part in zip(self.weights, moves, strict=True):
            for start, coefficient in part:
                weights.add(start, coefficient * weights.resolution)
        return scalars, sum(plus + minus) / len(plus + minus)

    def _side(self, inputs: Tensor, labels: Tensor, first: int, second: list[int], sign: int) -> list[float]:
        """Losses at one sign of a perturbation of the first part; one intermediate output is stored at a time."""
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


def evaluated(module: nn.Module, samples: Samples) -> tuple[float, float]:
    """Mean cross entropy and accuracy of a network on samples."""
    with torch.no_grad():
        logits = module(torch.from_numpy(samples.values())).numpy()
    return cross_entropy(logits, samples.labels), accuracy(logits, samples.labels)
