"""Integer zeroth-order job, reproduced bit for bit by the FPGA core: PeZO (equations 1 and 2) on all parameters.

Pre-trained parameters stay as they are, in Q4.12; beside them are `Deltas`, in Q4.28. A step runs the network on both
sides of the deltas, E being what is added to the parameters of a word::

    E = round half even (deltas +- eps z) to Q4.12          parameters = saturate (pre-trained + E)

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
from ..fixed import Q4_12, Integers, Narrower
from ..models.stages import after_cut
from ..nn.arithmetic.forward import StageIntegers, run
from ..nn.arithmetic.loss import Loss, labels_of
from ..nn.arithmetic.products import Product, product_of
from ..nn.softmax import SoftmaxTables
from ..rng.perturbation import POSITIONS, PerturbationSource
from .coefficient import COEFFICIENT, LARGEST_BATCH, LARGEST_SHIFT, RATE, coefficient_of
from .deltas import DELTA, Deltas, PerturbationTable
from .loss_difference import DIFFERENCE_FRACTION, loss_differences
from .mapping import PerturbationMapping
from .mse_difference import mse_differences
from .scalars import Scalars
from .split import WHOLE, Split

EPS_SHIFTS = range(4, 13)
"""Shifts of eps: the perturbation is far above a last place of Q4.12 there, and far below 1."""


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
    """Neighbouring stages with perturbations of their own.

    Parameters
    ----------
    mapping : PerturbationMapping
    words : array of int, (words, width)
        Pre-trained parameters.
    deltas : Deltas
    """

    mapping: PerturbationMapping
    words: Integers
    deltas: Deltas

    def parameters(self, table: Integers, narrow: Narrower) -> tuple[StageIntegers, ...]:
        """Parameters with the deltas of a table, 28 fraction bits."""
        spread, words = self.deltas.perturbation.spread, self.mapping.words
        # where words share rows, a row's offsets are made, and counted where they are clipped, once for all of them
        shared = self.mapping.times > 0
        numbers = spread(narrow(table, DELTA, Q4_12), words) if shared else narrow(spread(table, words), DELTA, Q4_12)
        lanes = np.arange(self.mapping.width) % numbers.shape[1]
        moved = np.clip(self.words + numbers[:, lanes], Q4_12.minimum, Q4_12.maximum)
        return self.mapping.split(moved)


class ZerothOrderJob:
    """Zeroth-order fine-tuning of a network, step by step.

    Parameters
    ----------
    mapping : PerturbationMapping
        Network and order of its parameters.
    frozen : sequence of StageIntegers
        Pre-trained weights and biases.
    source : PerturbationSource
        Generator of the perturbations.
    shift : int
        Bits that the product of loss difference and rate is shifted to the right, see `rates_of`.
    eps_shift : int
        ``eps = 2**-eps_shift``.
    position : int
        Position of the first perturbation.
    deltas : array of int, optional
        Deltas to start from, see `total`; by default there are none.
    products : "blas", "int64" or "torch"
        Implementation of matrix products; all give equal results.
    split : Split
        Perturbations of a step.
    scalars : bool
        Round the coefficients of a step to the bytes of a message, see `scalars.Scalars`.
    loss : str
        See `nn.loss`.

    Attributes
    ----------
    frozen : tuple of StageIntegers
    parts : tuple of TunedPart
        Parts of the network, one or two.
    layout : StepLayout
        Positions of the perturbations of a step.
    position : int
        Position of the next perturbation, less than the generator's period. A step at a position without a name, see
        `rng.perturbation.POSITIONS`, is refused.

    Raises
    ------
    UserError
        If a setting is out of range.
    """

    def __init__(
        self,
        mapping: PerturbationMapping,
        frozen: Sequence[StageIntegers],
        source: PerturbationSource,
        shift: int,
        eps_shift: int = 10,
        position: int = 0,
        deltas: Integers | None = None,
        products: str = "blas",
        split: Split = WHOLE,
        scalars: bool = False,
        loss: Loss = "cross_entropy",
    ) -> None:
        if eps_shift not in EPS_SHIFTS:
            raise UserError(f"eps_shift = {eps_shift} is not in {EPS_SHIFTS[0]} to {EPS_SHIFTS[-1]}")
        if not 0 <= shift <= LARGEST_SHIFT:
            raise UserError(f"shift = {shift} is not in 0 to {LARGEST_SHIFT}")
        last = min(source.period, POSITIONS) - 1
        if not 0 <= position <= last:
            raise UserError(f"position = {position} is not in 0 to {last}")
        split.check(mapping)
        self.mapping, self.shift, self.split, self.scalars, self.loss = mapping, shift, split, scalars, loss
        self._labels = labels_of(loss, mapping.forward.name, mapping.forward.network_stages)
        self.frozen, self.source, self.position = tuple(frozen), source, position
        self.layout = split.layout(mapping, source.period)
        parts = mapping.parts(split.cut)
        tables = [PerturbationTable(source, part.words) for part in parts]
        self.parts = tuple(
            TunedPart(part, part.flatten(frozen[part.stages.start : part.stages.stop]), Deltas(table))
            for part, table in zip(parts, tables, strict=True)
        )
        if deltas is not None:
            self.total = deltas
        self.eps = 1 << (DELTA.fraction - tables[0].fraction - eps_shift)
        self.softmax = SoftmaxTables()
        self._product: Product = product_of(products)
        self._narrow, self._coefficients = Narrower(), Narrower()

    @property
    def total(self) -> Integers:
        """Sum of updates, `DELTA`: of the table's shape, for a network that is cut (2, *shape)."""
        totals = [part.deltas.total for part in self.parts]
        return np.stack(totals) if self.split.cut else totals[0]

    @total.setter
    def total(self, total: Integers) -> None:
        if self.split.cut and len(total) != len(self.parts):
            raise UserError(f"deltas of {total.shape} are not those of {len(self.parts)} parts")
        for part, own in zip(self.parts, total if self.split.cut else [total], strict=True):
            part.deltas = Deltas(part.deltas.perturbation, own)

    @property
    def rows(self) -> Integers:
        """Deltas of each word as the core's memory holds them, (rows, n)."""
        found = np.empty((self.mapping.all_rows, self.source.width), np.int64)
        for part in self.parts:
            own = part.mapping.rows
            found[own] = part.deltas.perturbation.spread(part.deltas.total, len(own))
        return found

    @rows.setter
    def rows(self, rows: Integers) -> None:
        for part in self.parts:
            own = part.deltas
            own.total = own.perturbation.folded(rows[part.mapping.rows], own.total)

    @property
    def saturations(self) -> int:
        """Number of activations, logits and values of E clipped so far, E counted once for each row and number."""
        return self._narrow.saturations

    @property
    def coefficients_clipped(self) -> int:
        """Number of coefficients clipped to `COEFFICIENT` so far."""
        return self._coefficients.saturations

    def step(self, inputs: Integers, labels: Integers, rate: int) -> list[ZerothOrderStep]:
        """Move along the perturbations of a step.

        Parameters
        ----------
        inputs : array of int, (samples, *input_shape)
            Q8.16.
        labels : array of int, (samples,)
            0 where a sample is its own target.
        rate : int
            Rate of the step in `RATE`, from `rates_of`; 0 moves nothing.

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
        period = self.source.period
        *first, second = self.parts
        found = []
        for start, others in self.layout.positions(self.position):
            between = [inputs, inputs]
            for part in first:
                between = [self._forward(part, inputs, part.deltas.along(start, side)) for side in self._sides]
            for position in others:
                sides = zip(between, self._sides, strict=True)
                logits = [self._forward(second, one, second.deltas.along(position, side)) for one, side in sides]
                plus, minus = (one.reshape(len(inputs), -1) for one in logits)
                differences, words = self._losses(plus, minus, inputs, labels)
                difference = int(differences.sum())
                coefficient = coefficient_of(difference, rate, self.shift, self._coefficients)
                found.append(ZerothOrderStep(position % period, coefficient, difference, words))
        self.move([slope.coefficient for slope in found])
        return found

    def move(self, coefficients: Sequence[int]) -> None:
        """Add the updates of a step, with a coefficient for each slope, and go on to the next position."""
        given = iter(Scalars.of(coefficients).coefficients if self.scalars else coefficients)
        for start, others in self.layout.positions(self.position):
            own = [int(self._coefficients(next(given), 0, COEFFICIENT)) for _ in others]
            for at, coefficient in zip(others, own, strict=True):
                self.parts[-1].deltas.add(at, coefficient)
            if self.split.cut:
                self.parts[0].deltas.add(start, int(self._coefficients(sum(own), 0, COEFFICIENT)))
        self.position = (self.position + self.layout.span) % self.source.period

    def logits(self, inputs: Integers) -> Integers:
        """Logits of the tuned network, (samples, classes) in Q8.16; the counters are not used."""
        values = inputs
        for part in self.parts:
            values = self._forward(part, values, part.deltas.total, Narrower())
        return values.reshape(len(inputs), -1)

    def tuned(self) -> tuple[StageIntegers, ...]:
        """Parameters of the tuned network in Q4.12."""
        return tuple(one for part in self.parts for one in part.parameters(part.deltas.total, Narrower()))

    @property
    def _sides(self) -> tuple[int, int]:
        return self.eps, -self.eps

    def _losses(self, plus: Integers, minus: Integers, inputs: Integers, labels: Integers) -> tuple[Integers, Integers]:
        """Loss differences of samples, and the words of their losses."""
        if self.loss == "mse":
            targets = inputs.reshape(len(inputs), -1)
            return mse_differences(plus - targets, minus - targets)
        differences, (above, below) = loss_differences(plus, minus, labels, self.softmax)
        return differences, above | below << 16

    def _forward(self, part: TunedPart, inputs: Integers, table: Integers, narrow: Narrower | None = None) -> Integers:
        """Outputs of a part of the network, with the deltas of a table."""
        narrow = narrow or self._narrow
        first, last = part.mapping.stages.start, part.mapping.stages.stop
        stages = after_cut(self.mapping.forward.network_stages[:last], first)
        return run(stages, part.parameters(table, narrow), inputs, self._product, narrow)[-1]

    def _check(self, inputs: Integers, labels: Integers, rate: int) -> None:
        forward, samples = self.mapping.forward, len(inputs)
        if inputs.shape[1:] != forward.input_shape or len(labels) != samples:
            raise UserError(
                f"a batch of {forward.name} is n x {forward.input_shape} with n labels, "
                f"not {inputs.shape}, {labels.shape}"
            )
        if not 1 <= samples <= LARGEST_BATCH:
            raise UserError(f"a batch of {samples} samples is not in 1 to {LARGEST_BATCH}")
        if not 0 <= labels.min() <= labels.max() < self._labels:
            raise UserError(f"a label of {labels.tolist()} is outside 0 to {self._labels - 1}")
        if not 0 <= rate <= RATE.maximum:
            raise UserError(f"rate = {rate} is not in 0 to {RATE.maximum}")
        if self.position >= POSITIONS:
            raise UserError(f"position = {self.position} has more than 32 bits: begin again, at 0 for instance")


def rates_of(
    rates: Sequence[float],
    batches: Sequence[int],
    perturbation: PerturbationTable,
    eps_shift: int = 10,
    slopes: int = 1,
) -> tuple[list[int], int]:
    """Convert learning rates of mean losses to the integers of a job.

    ``c = - rate * dL / (2 eps batch slopes)`` in units of ``2**(fraction - 28)``.

    Parameters
    ----------
    rates : sequence of float
        Learning rate of each step, at least 0.
    batches : sequence of int
        Number of samples of each step.
    perturbation : PerturbationTable
    eps_shift : int
        See `ZerothOrderJob`.
    slopes : int
        Slopes of a step, see `Split`.

    Returns
    -------
    list of int, int
        Rate of each step in `RATE`, and the job's shift: the largest with which all rates fit.

    Raises
    ------
    UserError
        If a rate is negative, or all are 0 or too small or large for any shift.
    """
    if not len(rates) or min(rates) < 0 or not np.isfinite(rates).all():
        raise UserError(f"learning rates of {min(rates, default=0):g} to {max(rates, default=0):g}: give 0 or more")
    exponent = DELTA.fraction - perturbation.fraction + eps_shift - 1 - DIFFERENCE_FRACTION
    exact = [np.ldexp(rate / (batch * slopes), exponent) for rate, batch in zip(rates, batches, strict=True)]
    shift = RATE.width - int(np.frexp(max(exact))[1])
    if np.rint(np.ldexp(max(exact), shift)) > RATE.maximum:
        shift -= 1
    if not max(exact) or not 0 <= shift <= LARGEST_SHIFT:
        raise UserError(f"a learning rate of {max(rates):g} is no 16-bit number with a shift of 0 to {LARGEST_SHIFT}")
    return [int(np.rint(np.ldexp(one, shift))) for one in exact], shift
