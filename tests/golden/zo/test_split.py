"""Steps with perturbations of two segments: compared with per-weight sums, PyTorch integers, and a single segment."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Narrower, narrow
from fabtune.golden.models.text import NETWORKS, network_from
from fabtune.golden.nn.arithmetic.forward import forward
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.nn.softmax import SoftmaxTables
from fabtune.golden.rng.gaussian_array import GaussianArraySpec
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.train.zo.periodic import Periodic
from fabtune.golden.train.zo.weights import IntegerWeights
from fabtune.golden.zo.deltas import DELTA, PerturbationTable
from fabtune.golden.zo.job import COEFFICIENT, ZerothOrderJob
from fabtune.golden.zo.loss_difference import loss_differences
from fabtune.golden.zo.mapping import PerturbationMapping
from fabtune.golden.zo.network_model import NetworkModel
from fabtune.golden.zo.scalars import Scalars
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings

CHANNELS = "3x7x6 conv5k3p1 relu pool2 conv6k2 relu flatten fc9 relu fc4"
SOURCE = PezoSpec()
CUTS = {1: Split(1, 2, 3), 2: Split(2, 2, 3), 3: Split(3, 1, 4)}


def mapping_of(network=CHANNELS, lanes=16, columns=4):
    known = NETWORKS[network] if network in NETWORKS else network_from(network)
    return PerturbationMapping(Mapping.of(known, lanes, columns))


@pytest.fixture(name="job_of")
def _job_of(parameters):
    """Function that makes a job before its first step, and its rate."""

    def job_of(mapping, source=SOURCE, rate=1e-3, batch=5, split=Split(), scalars=False, **more):  # noqa: B008
        settings = StepSettings(split=split, scalars=scalars)
        (word,), settings = settings.with_rates([rate], [batch], PerturbationTable(source))
        return ZerothOrderJob(NetworkModel(mapping, parameters(mapping)), source, settings, **more), word

    return job_of


@pytest.mark.parametrize("cut", CUTS)
def test_each_slope_is_that_of_both_perturbations(cut, job_of, parameters, samples):
    """Every parameter moves by the number that `draw_perturbation` assigns in its segment."""
    mapping, split, position = mapping_of(), CUTS[cut], 4321
    job, rate = job_of(mapping, split=split, position=position)
    inputs, labels = samples(mapping, 5)
    parts, tables = mapping.parts(cut), SoftmaxTables()
    frozen = parameters(mapping)

    def moved(part, at, side):
        flat = part.flatten(frozen[part.stages.start : part.stages.stop]).reshape(-1)
        z = draw_perturbation(SOURCE, at, flat.size, mapping.width).astype(int)
        return part.split(np.clip(flat + np.rint(side * (z << (28 - 10 - 10)) / 65536).astype(int), -32768, 32767))

    def logits(first, second, side):
        values = inputs
        own = (*moved(parts[0], first, side), *moved(parts[1], second, side))
        for stage, stage_parameters in zip(mapping.forward.network_stages, own, strict=True):
            values = forward(stage, stage_parameters, values, product_of("int64"), Narrower())
        return values

    found = iter(job.step(inputs, labels, rate))
    at = position
    for _ in range(split.first):
        first, at = at, at + parts[0].words
        for _ in range(split.second):
            slope = next(found)
            sides = (logits(first, at, side) for side in (1, -1))
            differences, probabilities = loss_differences(*sides, labels, tables)
            assert (slope.position, slope.difference) == (at, differences.sum())
            assert np.array_equal(slope.probabilities, probabilities)
            at += job.layout.spans[1]
    assert job.position == at == position + job.layout.span
    assert np.gcd(job.layout.span // split.first, SOURCE.period) == 1


@pytest.mark.parametrize("scalars", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_deltas_of_both_parts_are_those_of_the_pytorch_integers(cut, scalars, job_of, samples):
    mapping, split = mapping_of(), CUTS[cut]
    job, rate = job_of(mapping, split=split, scalars=scalars)
    inputs, labels = samples(mapping, 5 * 20)
    steps = []
    for number in range(60):
        some = slice(5 * (number % 20), 5 * (number % 20) + 5)
        own = [slope.coefficient for slope in job.step(inputs[some], labels[some], rate)]
        steps.append(Scalars.of(own) if scalars else own)
    assert not job.coefficients_clipped
    fraction = PerturbationTable(SOURCE).fraction
    periodic = Periodic(SOURCE, mapping.width, None if fraction == SOURCE.fraction_bits else fraction)
    weights = []
    for own in job.parts:
        start = torch.from_numpy(Q4_12.to_float(own.part.frozen).astype(np.float32).reshape(-1))
        weights.append(IntegerWeights([start], periodic, DELTA))
    position = 0
    for step in steps:
        given = iter(step.coefficients if scalars else step)
        for first, others in job.layout.positions(position):
            mine = [next(given) for _ in others]
            weights[0].add(first, sum(mine) * weights[0].resolution)
            for at, coefficient in zip(others, mine, strict=True):
                weights[1].add(at, coefficient * weights[1].resolution)
        position += job.layout.span
    for tuned, own in zip(job.parts, weights, strict=True):
        table = tuned.deltas.perturbation.spread(tuned.deltas.total, tuned.part.words)
        mine = (tuned.part.frozen << 16) + table[:, np.arange(mapping.width) % SOURCE.width]
        assert np.array_equal(mine.astype(np.int32).reshape(-1), own.integers[0].numpy())
        assert np.array_equal(job.rows[tuned.part.rows], table)


def test_several_perturbations_of_a_whole_network_share_a_rate(job_of, samples):
    """Compared with single-perturbation steps with summed coefficients."""
    mapping = mapping_of("digits")
    inputs, labels = samples(mapping, 5)
    job, rate = job_of(mapping, split=Split(first=3))
    alone, _ = job_of(mapping)
    alone.settings = replace(alone.settings, shift=job.settings.shift)
    frozen = alone.rows.copy()
    slopes = job.step(inputs, labels, rate)
    for slope in slopes:
        alone.rows = frozen
        (own,) = alone.step(inputs, labels, rate)
        assert (own.position, own.coefficient, own.difference) == (slope.position, slope.coefficient, slope.difference)
        frozen_after = alone.rows
        assert (frozen_after != frozen).any()
    table = PerturbationTable(SOURCE)
    total = sum(slope.coefficient * table.at(slope.position) for slope in slopes)
    assert np.array_equal(job.total, total)


def test_gaussian_numbers_split_a_network_too(job_of, samples):
    mapping = mapping_of()
    source = GaussianArraySpec(n=mapping.width, form="sum")
    job, rate = job_of(mapping, source, split=Split(2, 2, 2))
    other, _ = job_of(mapping, source, split=Split(2, 2, 2))
    inputs, labels = samples(mapping, 5)
    slopes = job.step(inputs, labels, rate)
    expected = np.zeros_like(job.rows)
    first, second = mapping.parts(2)
    at = iter(slopes)
    for start, others in other.layout.positions(0):
        own = [next(at).coefficient for _ in others]
        expected[first.rows] += sum(own) * source.draw(start, first.words)
        for position, coefficient in zip(others, own, strict=True):
            expected[second.rows] += coefficient * source.draw(position, second.words)
    assert np.array_equal(job.rows, expected)


def test_sums_of_coefficients_are_clipped_and_counted(parameters, samples):
    mapping = mapping_of()
    inputs, labels = samples(mapping, 5)
    job = ZerothOrderJob(NetworkModel(mapping, parameters(mapping)), SOURCE, StepSettings(split=Split(2, 1, 4)))
    slopes = job.step(inputs, labels, 65535)
    coefficients = [slope.coefficient for slope in slopes]
    assert {abs(one) for one in coefficients} <= {COEFFICIENT.maximum, -COEFFICIENT.minimum}
    own = narrow(np.array(sum(coefficients)), 0, COEFFICIENT)
    assert job.coefficients_clipped == 4 + (abs(sum(coefficients)) > COEFFICIENT.maximum)
    assert np.array_equal(job.parts[0].deltas.total, (int(own) * PerturbationTable(SOURCE).at(0)).astype(np.int32))


def test_rows_hold_every_word_of_both_parts_once(parameters):
    mapping = mapping_of("lenet5-mnist", 32)
    for cut in range(1, 5):
        rows = np.concatenate([part.rows for part in mapping.parts(cut)])
        assert sorted(rows) == list(range(mapping.words))
    assert [part.words for part in mapping.parts(2)] == [24, 486]
    model, settings = NetworkModel(mapping, parameters(mapping)), StepSettings(shift=20, split=Split(2))
    job, other = (ZerothOrderJob(model, SOURCE, settings) for _ in range(2))
    total = np.random.default_rng(0).integers(-100, 100, (2, *SOURCE.base.shape))
    job.total = total
    saved = job.rows
    other.rows = saved
    assert np.array_equal(other.rows, saved)
    for mine, theirs in zip(model.tuned(other), model.tuned(job), strict=True):
        assert np.array_equal(mine.weight, theirs.weight)
        assert np.array_equal(mine.bias, theirs.bias)


def test_records_are_grouped_by_step():
    assert Split(1, 2, 3).steps(range(12)) == [tuple(range(6)), tuple(range(6, 12))]
    assert Split().steps([]) == []
    with pytest.raises(ValueError, match="shorter"):
        Split(1, 2, 3).steps(range(13))


@pytest.mark.parametrize(
    ("split", "refusal"),
    [
        (lambda: Split(1, 0, 1), "P1 = 0 is not in 1 to 16"),
        (lambda: Split(1, 1, 17), "P2 = 17 is not in 1 to 16"),
        (lambda: Split(1, 13, 5), "P1 x P2 = 65 slopes of a step: at most 64"),
        (lambda: Split(0, 1, 2), "P2 = 2 without a second part"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(split, refusal):
    with pytest.raises(UserError, match=refusal):
        split()


def test_deltas_of_one_part_are_none_of_two(job_of):
    with pytest.raises(UserError, match=r"deltas of \(255, 31\) are not those of 2 parts"):
        job_of(mapping_of(), split=Split(1), deltas=np.zeros(SOURCE.base.shape, int))
