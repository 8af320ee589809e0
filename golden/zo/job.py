"""Integer zeroth-order job, bit for bit as the FPGA core: PeZO (equations 1 and 2) on all parameters.

Pre-trained parameters never change; `Deltas` in Q4.28 hold the updates. A step runs the model on both sides of the
deltas. E is the offset of a word's parameters::

    E = round half even (deltas +- eps z)          parameters = saturate (pre-trained + E)

E has the format of the model's parameters, Q4.12 for a network on the array; for the model see `model.PerturbedModel`.

A step has one projected gradient, or one for each pair of perturbations of a `Split`. A coefficient of the first part
is the saturated sum over its pairs, see `scalars`. Coefficients may be rounded to the bytes of a message.

The loss difference is the trapezoid on the softmax, see `loss_difference`: exactly odd in the perturbation's sign.
Autoencoders use mean squared errors, see `mse_difference`. The update's coefficient is
``c = - round half even (dL rate >> shift)``, see `coefficient`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UserError, check_range
from ..fixed import Integers, Narrower
from ..nn.softmax import SoftmaxTables
from ..rng.perturbation import POSITIONS, PerturbationSource
from .coefficient import COEFFICIENT, LARGEST_BATCH, RATE, coefficient_of
from .deltas import DELTA, Deltas, PerturbationTable
from .loss_difference import loss_differences
from .model import PerturbedModel, PerturbedPart
from .mse_difference import mse_differences
from .scalars import Scalars
from .step_settings import StepSettings


@dataclass(frozen=True)
class ZerothOrderStep:
    """Record of a projected gradient; a step has a record for each pair of perturbations.

    Parameters
    ----------
    position : int
        Position of the perturbation; for a pair, of its second-part perturbation.
    coefficient : int
        Factor of the perturbation in the update of the deltas, before rounding to the bytes of a message.
    difference : int
        Sum of the samples' loss differences, with `DIFFERENCE_FRACTION` fraction bits.
    words : array of int, (samples,)
        32 bits for each sample: `probabilities`, or for an autoencoder the error in `mse_difference.ERROR`.
    """

    position: int
    coefficient: int
    difference: int
    words: Integers

    @property
    def probabilities(self) -> Integers:
        """Probability of each sample's label on the plus and on the minus side, Q4.12: (2, samples)."""
        return np.stack([self.words & 0xFFFF, self.words >> 16])


@dataclass
class TunedPart:
    """Part of a model, and the deltas of its parameters."""

    part: PerturbedPart
    deltas: Deltas

    def offsets(self, table: Integers, narrow: Narrower) -> Integers:
        """Offsets of all words, (words, n), from a table of deltas with 28 fraction bits."""
        spread, part = self.deltas.perturbation.spread, self.part
        # words on the same row share offsets, so a clipped offset counts once
        if len(part.rows) < part.words:
            return spread(narrow(table, DELTA, part.offset_format), part.words)
        return narrow(spread(table, part.words), DELTA, part.offset_format)

    def forward(self, inputs: Integers, table: Integers, narrow: Narrower) -> Integers:
        """Outputs of the part with the deltas of a table."""
        return self.part.forward(inputs, self.offsets(table, narrow), narrow)


class ZerothOrderJob:
    """Zeroth-order fine-tuning of a model, step by step.

    Raises `UserError` if the position is out of range, or model, settings and deltas do not fit together.

    Parameters
    ----------
    model : PerturbedModel
        Pre-trained.
    source : PerturbationSource
        Generator of the perturbations.
    position : int
        Position of the first perturbation.
    deltas : array of int, optional
        Initial deltas, see `total`; by default zeros.

    Attributes
    ----------
    parts : tuple of TunedPart
        One or two parts of the model.
    layout : StepLayout
        Positions of a step's perturbations.
    position : int
        Position of the next perturbation, less than the generator's period. Steps beyond `rng.perturbation.POSITIONS`
        are refused.
    """

    def __init__(
        self,
        model: PerturbedModel,
        source: PerturbationSource,
        settings: StepSettings,
        position: int = 0,
        deltas: Integers | None = None,
    ) -> None:
        last = min(source.period, POSITIONS) - 1
        check_range("position", position, 0, last)
        self.model, self.source, self.settings, self.position = model, source, settings, position
        self.layout = settings.split.layout(model, source.period)
        self._labels = model.label_count(settings.loss)
        parts = model.parts(settings.split.cut)
        self.parts = tuple(TunedPart(part, Deltas(PerturbationTable(source, part.words))) for part in parts)
        if deltas is not None:
            self.total = deltas
        self.eps = 1 << (DELTA.fraction - self.parts[0].deltas.perturbation.fraction - settings.eps_shift)
        self.softmax = SoftmaxTables()
        self._narrow, self._coefficients = Narrower(), Narrower()

    @property
    def total(self) -> Integers:
        """Sum of updates in `DELTA`: of the table's shape, or (2, *shape) for a model with a cut."""
        totals = [part.deltas.total for part in self.parts]
        return np.stack(totals) if self.settings.split.cut else totals[0]

    @total.setter
    def total(self, total: Integers) -> None:
        if self.settings.split.cut and len(total) != len(self.parts):
            raise UserError(f"deltas of {total.shape} are not those of {len(self.parts)} parts")
        for part, part_total in zip(self.parts, total if self.settings.split.cut else [total], strict=True):
            part.deltas = Deltas(part.deltas.perturbation, part_total)

    @property
    def rows(self) -> Integers:
        """Deltas of each word as in the core's memory, (rows, n)."""
        deltas = np.empty((sum(len(tuned.part.rows) for tuned in self.parts), self.source.width), np.int64)
        for tuned in self.parts:
            rows = tuned.part.rows
            deltas[rows] = tuned.deltas.perturbation.spread(tuned.deltas.total, len(rows))
        return deltas

    @rows.setter
    def rows(self, rows: Integers) -> None:
        for tuned in self.parts:
            deltas = tuned.deltas
            deltas.total = deltas.perturbation.folded(rows[tuned.part.rows], deltas.total)

    @property
    def saturations(self) -> int:
        """Clipped activations, logits and values of E; E counts once for each row and number."""
        return self._narrow.saturations

    @property
    def saturated_places(self) -> dict[str, int]:
        """Saturations by operation, if the model names the operations."""
        return dict(self._narrow.named)

    @property
    def coefficients_clipped(self) -> int:
        """Number of coefficients clipped to `COEFFICIENT`."""
        return self._coefficients.saturations

    def step(self, inputs: Integers, labels: Integers, rate: int) -> list[ZerothOrderStep]:
        """Evaluate the perturbations of a step, and update the deltas.

        Raises `UserError` if a shape, a label, the rate or the position is invalid; the job is then unchanged.

        Parameters
        ----------
        inputs : array of int, (samples, ...)
            Inputs of the model; Q8.16 for a network.
        labels : array of int, (samples,)
            0 for samples that are their own target.
        rate : int
            Rate of the step in `RATE`, from `StepSettings.with_rates`; 0 for no update.

        Returns
        -------
        list of ZerothOrderStep
            A record for each projected gradient; pairs with the same first-part perturbation are neighbours.
        """
        self._check(inputs, labels, rate)
        period, narrow = self.source.period, self._narrow
        *first, second = self.parts
        slopes = []
        for start, others in self.layout.positions(self.position):
            between = [inputs, inputs]
            for part in first:
                between = [part.forward(inputs, part.deltas.along(start, side), narrow) for side in self._sides]
            for position in others:
                sides = zip(between, self._sides, strict=True)
                logits = [second.forward(values, second.deltas.along(position, side), narrow) for values, side in sides]
                plus, minus = (values.reshape(len(inputs), -1) for values in logits)
                differences, words = self._losses(plus, minus, inputs, labels)
                difference = int(differences.sum())
                coefficient = coefficient_of(difference, rate, self.settings.shift, self._coefficients)
                slopes.append(ZerothOrderStep(position % period, coefficient, difference, words))
        self.move([slope.coefficient for slope in slopes])
        return slopes

    def move(self, coefficients: Sequence[int]) -> None:
        """Add the updates of a step, a coefficient for each projected gradient, and advance the position."""
        remaining = iter(Scalars.of(coefficients).coefficients if self.settings.scalars else coefficients)
        for start, others in self.layout.positions(self.position):
            pair_coefficients = [int(self._coefficients(next(remaining), 0, COEFFICIENT)) for _ in others]
            for pair_position, coefficient in zip(others, pair_coefficients, strict=True):
                self.parts[-1].deltas.add(pair_position, coefficient)
            if self.settings.split.cut:
                self.parts[0].deltas.add(start, int(self._coefficients(sum(pair_coefficients), 0, COEFFICIENT)))
        self.position = (self.position + self.layout.span) % self.source.period

    def logits(self, inputs: Integers, narrow: Narrower | None = None) -> Integers:
        """Logits of the tuned model, (samples, classes) in Q8.16.

        `narrow` counts clipped values; the job's own counters stay unchanged.
        """
        values, narrow = inputs, narrow or Narrower()
        for part in self.parts:
            values = part.forward(values, part.deltas.total, narrow)
        return values.reshape(len(inputs), -1)

    def offsets(self) -> list[Integers]:
        """Offsets of all words of each part, (words, n); the counters stay unchanged."""
        return [part.offsets(part.deltas.total, Narrower()) for part in self.parts]

    @property
    def _sides(self) -> tuple[int, int]:
        return self.eps, -self.eps

    def _losses(self, plus: Integers, minus: Integers, inputs: Integers, labels: Integers) -> tuple[Integers, Integers]:
        if self.settings.loss == "mse":
            targets = inputs.reshape(len(inputs), -1)
            return mse_differences(plus - targets, minus - targets)
        differences, (above, below) = loss_differences(plus, minus, labels, self.softmax)
        return differences, above | below << 16

    def _check(self, inputs: Integers, labels: Integers, rate: int) -> None:
        self.model.check(inputs, labels)
        samples = len(inputs)
        if not 1 <= samples <= LARGEST_BATCH:
            raise UserError(f"a batch of {samples} samples is not in 1 to {LARGEST_BATCH}")
        if not 0 <= labels.min() <= labels.max() < self._labels:
            raise UserError(f"a label of {labels.tolist()} is outside 0 to {self._labels - 1}")
        check_range("rate", rate, 0, RATE.maximum)
        if self.position >= POSITIONS:
            raise UserError(f"position = {self.position} has more than 32 bits: begin again, at 0 for instance")
