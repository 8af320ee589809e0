"""Zeroth-order job on a model other than a network: deltas follow the formula, at every cut."""

import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Format, narrow
from fabtune.golden.nn.softmax import SoftmaxTables
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.scalars import Scalars
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings

SOURCE = PezoSpec()
Q4_14 = Format(4, 14)
"""Differs from the parameter format of networks on the array."""
INPUTS, WIDTH, SAMPLES = 40, 20, 5


@dataclass
class Part:
    """Integer linear maps in series: weights (outputs, inputs), `WIDTH` a word."""

    maps: list
    rows: np.ndarray
    offset_format = Q4_14

    @property
    def words(self):
        return sum(one.size for one in self.maps) // WIDTH

    def forward(self, inputs, offsets, narrow):
        moved = offsets[:, np.arange(WIDTH) % offsets.shape[1]].reshape(-1)
        for weights in self.maps:
            own, moved = moved[: weights.size], moved[weights.size :]
            product = inputs @ (weights + own.reshape(weights.shape)).T
            inputs = narrow(product, Q8_16.fraction + Q4_14.fraction, Q8_16)
        return inputs


class Maps:
    """Two linear maps, optionally cut; uncut, words share as many rows as the generator has cycles."""

    def __init__(self, classes, shared=False):
        rng = np.random.default_rng(0)
        self.maps = [rng.integers(-3000, 3000, shape) for shape in ((INPUTS, INPUTS), (classes, INPUTS))]
        self.all_rows = SOURCE.base.shape[0] if shared else sum(one.size for one in self.maps) // WIDTH
        self.shared, self.classes = shared, classes

    def parts(self, cut):
        if cut not in ((0,) if self.shared else (0, 1)):
            raise UserError(f"cut = {cut}: no such cut")
        if not cut:
            return [Part(self.maps, np.arange(self.all_rows))]
        between = self.maps[0].size // WIDTH
        return [
            Part(self.maps[:1], np.arange(between)),
            Part(self.maps[1:], np.arange(between, self.all_rows)),
        ]

    def label_count(self, loss):
        assert loss == "cross_entropy"
        return self.classes

    def check(self, inputs, labels):
        if inputs.shape != (len(labels), INPUTS):
            raise UserError("not a batch of this model")


def half_even(values, bits):
    """Exact division by a power of two."""
    return np.array([round(Fraction(int(one), 1 << bits)) for one in values.reshape(-1)]).reshape(values.shape)


def expected_slope(maps, inputs, labels, deltas, perturbation, eps_shift):
    """Loss difference by the formula, from deltas and perturbation of each weight."""
    sides = []
    for sign in (1, -1):
        values = inputs
        for weights, own, z in zip(maps, deltas, perturbation, strict=True):
            offsets = half_even(own + sign * (z << 28 - SOURCE_FRACTION - eps_shift), 14)
            values = narrow(values @ (weights + offsets).T, 30, Q8_16)
        sides.append(values)
    tables = SoftmaxTables()
    probabilities = [tables.probabilities(one) for one in sides]
    label = 4096 * (labels[:, None] == np.arange(sides[0].shape[1]))
    return int(((sum(probabilities) - 2 * label) * (sides[0] - sides[1])).sum())


SOURCE_FRACTION = PerturbationTable(SOURCE).fraction
CASES = {
    "all of it": (Maps(4), Split()),
    "several perturbations": (Maps(4), Split(first=3)),
    "two parts": (Maps(4), Split(1, 2, 3)),
    "words that share rows": (Maps(150, shared=True), Split()),
}


@pytest.mark.parametrize("scalars", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_step_moves_the_deltas_as_the_formula_says(case, scalars):
    model, split = CASES[case]
    settings = StepSettings(eps_shift=8, split=split, scalars=scalars)
    (rate,), settings = settings.with_rates([0.05], [SAMPLES], PerturbationTable(SOURCE))
    job = ZerothOrderJob(model, SOURCE, settings, position=4321)
    rng = np.random.default_rng(1)
    inputs, labels = rng.integers(-90_000, 90_000, (SAMPLES, INPUTS)), rng.integers(0, model.classes, SAMPLES)
    deltas = [np.zeros(one.shape, int) for one in model.maps]
    parts = [model.maps[:1], model.maps[1:]] if split.cut else [model.maps]

    def perturbation(part, position):
        flat = draw_perturbation(SOURCE, position % SOURCE.period, sum(one.size for one in part), WIDTH).astype(int)
        ends = np.cumsum([one.size for one in part])
        return [one.reshape(own.shape) for one, own in zip(np.split(flat, ends[:-1]), part, strict=True)]

    for _ in range(3):
        at, moves, coefficients = job.position, [], []
        slopes = job.step(inputs, labels, rate)
        found = iter(slopes)
        for start, others in job.layout.positions(at):
            for position in others:
                slope, second = next(found), perturbation(parts[-1], position)
                first = perturbation(parts[0], start) if split.cut else []
                difference = expected_slope(model.maps, inputs, labels, deltas, first + second, settings.eps_shift)
                assert (slope.position, slope.difference) == (position % SOURCE.period, difference)
                coefficients.append(-round(Fraction(difference * rate, 1 << settings.shift)))
                moves.append((first, second))
        assert [slope.coefficient for slope in slopes] == coefficients
        assert all(coefficients)
        sent = Scalars.of(coefficients).coefficients if scalars else coefficients
        for (first, second), coefficient in zip(moves, sent, strict=True):
            for own, z in zip(deltas, first + second, strict=True):
                own += coefficient * z
        flat = np.concatenate([one.reshape(-1) for one in deltas])
        assert np.array_equal(offsets_of(job), half_even(flat, 14))
        assert flat.any()
    assert offsets_of(job).any()
    assert not job.coefficients_clipped


def offsets_of(job):
    """Offset of each weight of all maps."""
    return np.concatenate([one[:, :WIDTH].reshape(-1) for one in job.offsets()])


def test_a_model_refuses_its_cuts_and_batches():
    model, settings = Maps(4), StepSettings(split=Split(2))
    with pytest.raises(UserError, match="cut = 2: no such cut"):
        ZerothOrderJob(model, SOURCE, settings)
    job = ZerothOrderJob(model, SOURCE, StepSettings())
    for inputs, label, message in ((INPUTS - 1, 0, "not a batch of this model"), (INPUTS, 4, "is outside 0 to 3")):
        with pytest.raises(UserError, match=message):
            job.step(np.zeros((1, inputs), int), np.array([label]), 1)


def test_the_job_imports_no_network():
    """No network descriptions, forward pass, or array."""
    listed = "import sys, fabtune.golden.zo.job; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", listed], check=True, capture_output=True, text=True).stdout.split()
    own = {name.removeprefix("fabtune.golden.") for name in loaded if name.startswith("fabtune.golden.")}
    assert "zo.job" in own
    assert not {name for name in own if name.startswith(("models", "nn.array", "nn.arithmetic.forward", "zo.mapping"))}
