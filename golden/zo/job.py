"""Integer zeroth-order job, reproduced bit for bit by the FPGA core: PeZO (equations 1 and 2) on all parameters.

Pre-trained parameters stay as they are; beside them are `Deltas`, in Q4.28. A step runs the model on both
sides of the deltas, E being what is added to the parameters of a word::

    E = round half even (deltas +- eps z)          parameters = saturate (pre-trained + E)

E has the format that the model's parameters take, Q4.12 for a network on the array. What the model is, the job does not
know: see `model.PerturbedModel`.

A step has a slope for each pair of perturbations of a `Split`, and one without. A coefficient of the first part is the
sum of those of its pairs, as in `scalars`, saturated. Coefficients may be rounded to the bytes of a message.

The loss difference is the trapezoid on the softmax, see `loss_difference`; it is exactly odd in the sign of the
perturbation. That of an autoencoder is one of mean squared errors, see `mse_difference`. The coefficient of the update
is ``c = - round half even (dL rate >> shift)``, see `coefficient`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UserError
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
    """Record of a slope: a step has one, or one for each pair of its perturbations.

    Parameters
    ----------
    position : int
        Position of the perturbation, of a pair that of the second part.
    coefficient : int
        Multiple of the perturbation that was added to the deltas; before its rounding to the bytes of a message.
    difference : int
        Sum of the samples' loss differences, with `DIFFERENCE_FRACTION` fraction bits.
    words : array of int, (samples,)
        For each sample 32 bits that tell its losses: `probabilities`, or an autoencoder's `mse_difference.ERROR`.
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
    """Part of a model, and the deltas of its parameters.

    Parameters
    ----------
    part : PerturbedPart
    deltas : Deltas
    """

    part: PerturbedPart
    deltas: Deltas

    def offsets(self, table: Integers, narrow: Narrower) -> Integers:
        """Offsets of all words with the deltas of a table, 28 fraction bits: (words, n)."""
        spread, part = self.deltas.perturbation.spread, self.part
        # where words share rows, a row's offsets are made, and counted where they are clipped, once for all of them
        if len(part.rows) < part.words:
            return spread(narrow(table, DELTA, part.offset_format), part.words)
        return narrow(spread(table, part.words), DELTA, part.offset_format)

    def forward(self, inputs: Integers, table: Integers, narrow: Narrower) -> Integers:
        """Outputs of the part with the deltas of a table."""
        return self.part.forward(inputs, self.offsets(table, narrow), narrow)


class ZerothOrderJob:
    """Zeroth-order fine-tuning of a model, step by step.

    Parameters
    ----------
    model : PerturbedModel
        Pre-trained.
    source : PerturbationSource
        Generator of the perturbations.
    settings : StepSettings
    position : int
        Position of the first perturbation.
    deltas : array of int, optional
        Deltas to start from, see `total`; by default there are none.

    Attributes
    ----------
    parts : tuple of TunedPart
        Parts of the model, one or two.
    layout : StepLayout
        Positions of the perturbations of a step.
    position : int
        Position of the next perturbation, less than the generator's period. A step at a position without a name, see
        `rng.perturbation.POSITIONS`, is refused.

    Raises
    ------
    UserError
        If the position is out of range, or model, settings and deltas do not fit together.
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
        if not 0 <= position <= last:
            raise UserError(f"position = {position} is not in 0 to {last}")
        self.model, self.source, self.settings, self.position = model, source, settings, position
        self.layout = settings.split.layout(model, source.period)
        self._labels = model.labels(settings.loss)
        parts = model.parts(settings.split.cut)
        self.parts = tuple(TunedPart(part, Deltas(PerturbationTable(source, part.words))) for part in parts)
        if deltas is not None:
            self.total = deltas
        self.eps = 1 << (DELTA.fraction - self.parts[0].deltas.perturbation.fraction - settings.eps_shift)
        self.softmax = SoftmaxTables()
        self._narrow, self._coefficients = Narrower(), Narrower()

    @property
    def total(self) -> Integers:
        """Sum of updates, `DELTA`: of the table's shape, for a model that is cut (2, *shape)."""
        totals = [part.deltas.total for part in self.parts]
        return np.stack(totals) if self.settings.split.cut else totals[0]

    @total.setter
    def total(self, total: Integers) -> None:
        if self.settings.split.cut and len(total) != len(self.parts):
            raise UserError(f"deltas of {total.shape} are not those of {len(self.parts)} parts")
        for part, own in zip(self.parts, total if self.settings.split.cut else [total], strict=True):
            part.deltas = Deltas(part.deltas.perturbation, own)

    @property
    def rows(self) -> Integers:
        """Deltas of each word as the core's memory holds them, (rows, n)."""
        found = np.empty((sum(len(tuned.part.rows) for tuned in self.parts), self.source.width), np.int64)
        for tuned in self.parts:
            own = tuned.part.rows
            found[own] = tuned.deltas.perturbation.spread(tuned.deltas.total, len(own))
        return found

    @rows.setter
    def rows(self, rows: Integers) -> None:
        for tuned in self.parts:
            own = tuned.deltas
            own.total = own.perturbation.folded(rows[tuned.part.rows], own.total)

    @property
    def saturations(self) -> int:
        """Number of activations, logits and values of E clipped so far, E counted once for each row and number."""
        return self._narrow.saturations

    @property
    def saturated_places(self) -> dict[str, int]:
        """Saturations whose place the model names."""
        return dict(self._narrow.named)

    @property
    def coefficients_clipped(self) -> int:
        """Number of coefficients clipped to `COEFFICIENT` so far."""
        return self._coefficients.saturations

    def step(self, inputs: Integers, labels: Integers, rate: int) -> list[ZerothOrderStep]:
        """Move along the perturbations of a step.

        Parameters
        ----------
        inputs : array of int, (samples, ...)
            As the model takes them, a network Q8.16.
        labels : array of int, (samples,)
            0 where a sample is its own target.
        rate : int
            Rate of the step in `RATE`, from `StepSettings.with_rates`; 0 moves nothing.

        Returns
        -------
        list of ZerothOrderStep
            A record for each slope; those of one perturbation of the first part are neighbours.

        Raises
        ------
        UserError
            If a shape, a label or the rate does not fit, or the position has no name; nothing has changed then.
        """
        self._check(inputs, labels, rate)
        period, narrow = self.source.period, self._narrow
        *first, second = self.parts
        found = []
        for start, others in self.layout.positions(self.position):
            between = [inputs, inputs]
            for part in first:
                between = [part.forward(inputs, part.deltas.along(start, side), narrow) for side in self._sides]
            for position in others:
                sides = zip(between, self._sides, strict=True)
                logits = [second.forward(one, second.deltas.along(position, side), narrow) for one, side in sides]
                plus, minus = (one.reshape(len(inputs), -1) for one in logits)
                differences, words = self._losses(plus, minus, inputs, labels)
                difference = int(differences.sum())
                coefficient = coefficient_of(difference, rate, self.settings.shift, self._coefficients)
                found.append(ZerothOrderStep(position % period, coefficient, difference, words))
        self.move([slope.coefficient for slope in found])
        return found

    def move(self, coefficients: Sequence[int]) -> None:
        """Add the updates of a step, with a coefficient for each slope, and go on to the next position."""
        given = iter(Scalars.of(coefficients).coefficients if self.settings.scalars else coefficients)
        for start, others in self.layout.positions(self.position):
            own = [int(self._coefficients(next(given), 0, COEFFICIENT)) for _ in others]
            for at, coefficient in zip(others, own, strict=True):
                self.parts[-1].deltas.add(at, coefficient)
            if self.settings.split.cut:
                self.parts[0].deltas.add(start, int(self._coefficients(sum(own), 0, COEFFICIENT)))
        self.position = (self.position + self.layout.span) % self.source.period

    def logits(self, inputs: Integers, narrow: Narrower | None = None) -> Integers:
        """Logits of the tuned model, (samples, classes) in Q8.16.

        Parameters
        ----------
        inputs : array of int, (samples, ...)
            As the model takes them.
        narrow : Narrower, optional
            Counts what is clipped: activations, logits and offsets. The job's own counters are not used.
        """
        values, narrow = inputs, narrow or Narrower()
        for part in self.parts:
            values = part.forward(values, part.deltas.total, narrow)
        return values.reshape(len(inputs), -1)

    def offsets(self) -> list[Integers]:
        """Offsets of all words of each part as tuned so far, (words, n); the counters are not used."""
        return [part.offsets(part.deltas.total, Narrower()) for part in self.parts]

    @property
    def _sides(self) -> tuple[int, int]:
        return self.eps, -self.eps

    def _losses(self, plus: Integers, minus: Integers, inputs: Integers, labels: Integers) -> tuple[Integers, Integers]:
        """Loss differences of samples, and the words of their losses."""
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
        if not 0 <= rate <= RATE.maximum:
            raise UserError(f"rate = {rate} is not in 0 to {RATE.maximum}")
        if self.position >= POSITIONS:
            raise UserError(f"position = {self.position} has more than 32 bits: begin again, at 0 for instance")
