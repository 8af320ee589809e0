"""Integer zeroth-order job compared with PyTorch optimiser integers, per-weight sums, and float64 losses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16, Narrower
from fabtune.golden.models.text import NETWORKS, network_from
from fabtune.golden.nn.arithmetic.forward import StageIntegers, forward
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.rng.gaussian_array import GaussianArraySpec
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.train.zo.periodic import Periodic
from fabtune.golden.train.zo.weights import IntegerWeights
from fabtune.golden.zo.deltas import DELTA, PerturbationTable
from fabtune.golden.zo.job import COEFFICIENT, ZerothOrderJob
from fabtune.golden.zo.loss_difference import DIFFERENCE_FRACTION
from fabtune.golden.zo.mapping import PerturbationMapping
from fabtune.golden.zo.network_model import NetworkModel
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings

CHANNELS = "3x7x6 conv5k3p1 relu pool2 conv6k2 relu flatten fc9 relu fc4"
OTF8, OTF14, POOL = ("otf8",), ("otf14",), ("pool", "pool.p=32")


def mapping_of(network, lanes=32, columns=4):
    known = NETWORKS[network] if network in NETWORKS else network_from(network)
    return PerturbationMapping(Mapping.of(known, lanes, columns))


def source_of(preset, *settings):
    return build(PezoSpec, settings, preset)


@pytest.fixture(name="job_of")
def _job_of(parameters):
    """Function that makes a job before its first step, and its rate."""

    def job_of(mapping, source, rate=1e-3, batch=20, eps_shift=10, products="blas", **more):
        (word,), settings = StepSettings().with_rates([rate], [batch], PerturbationTable(source))
        model = NetworkModel(mapping, parameters(mapping), products)
        return ZerothOrderJob(model, source, replace(settings, eps_shift=eps_shift), **more), word

    return job_of


def replayed(job, source, steps):
    """Integer weights of the PyTorch optimiser after these steps' moves, in words."""
    periodic = Periodic(source, job.model.mapping.width, PerturbationTable(source).fraction)
    start = torch.from_numpy(Q4_12.to_float(job.parts[0].part.frozen).astype(np.float32).reshape(-1))
    weights = IntegerWeights([start], periodic, DELTA)
    for step in steps:
        weights.add(step.position, step.coefficient * weights.resolution)
    total = periodic.accumulate((step.position, step.coefficient) for step in steps)
    return weights.integers[0].numpy().reshape(job.parts[0].part.frozen.shape), total.numpy()


def moved_parameters(job, position, side):
    """Parameters of one side of a perturbation."""
    (own,) = job.parts
    return own.part.parameters(own.offsets(own.deltas.along(position, side * job.eps), Narrower()))


CASES = {
    "base": ("digits", OTF8, {}, 1000),
    "14 bits": ("digits", OTF14, {}, 200),
    "pool": ("digits", POOL, {}, 200),
    "leap": ("digits", (*OTF8, "scale.urng.leap=4"), {}, 200),
    "power of two": ("digits", (*OTF8, "scale.mode=pow2"), {}, 200),
    "constant": ("digits", (*OTF8, "scale.mode=constant"), {}, 200),
    "narrow array": ("digits", OTF8, {"lanes": 16, "columns": 2}, 200),
    "channels": (CHANNELS, OTF8, {}, 200),
    "LeNet-5": ("lenet5-mnist", OTF8, {}, 20),
}
LONG = {"14 bits": 1000, "pool": 1000, "channels": 1000, "LeNet-5": 1000}


@pytest.mark.parametrize(
    ("name", "steps"),
    [(name, case[-1]) for name, case in CASES.items()]
    + [pytest.param(name, steps, marks=pytest.mark.slow) for name, steps in LONG.items()],
)
def test_deltas_and_weights_are_those_of_the_optimiser(name, steps, job_of, samples):
    network, generator, array, _ = CASES[name]
    mapping, source = mapping_of(network, **array), source_of(*generator)
    job, rate = job_of(mapping, source, rate=1e-4, batch=5)
    inputs, labels = samples(mapping, 5 * 40)
    found = []
    for number in range(steps):
        some = slice(5 * (number % 40), 5 * (number % 40) + 5)
        found += job.step(inputs[some], labels[some], rate)
    assert len({step.coefficient for step in found}) > min(20, steps // 2)
    integers, total = replayed(job, source, found)
    assert np.array_equal(job.total, total)
    mine = (job.parts[0].part.frozen << 16) + job.rows[:, np.arange(mapping.width) % source.width]
    assert np.array_equal(mine.astype(np.int32), integers)


@pytest.mark.parametrize("network", ["digits", CHANNELS, "lenet5-mnist"])
def test_every_parameter_is_perturbed_by_its_own_number(network, job_of):
    """Per weight: the number that `draw_perturbation` assigns, and a single rounding of deltas and eps z."""
    mapping, source = mapping_of(network), source_of(*OTF8)
    position, rng = 4321, np.random.default_rng(3)
    total = rng.integers(-(1 << 24), 1 << 24, source.base.shape)
    job, _ = job_of(mapping, source, position=position, deltas=total)
    count = mapping.words * mapping.width
    z = draw_perturbation(source, position, count, mapping.width).astype(int)
    times, n = source.base.shape
    word, lane = np.divmod(np.arange(count), mapping.width)
    delta = total[word % times, (lane % n + word) % n]
    for side in (1, -1):
        e = (delta + side * (z << (28 - 10 - 10))) / 65536
        moved = np.clip(job.parts[0].part.frozen.reshape(-1) + np.rint(e).astype(int), -32768, 32767)
        expected = mapping.split(moved)
        found = moved_parameters(job, position, side)
        for mine, theirs in zip(found, expected, strict=True):
            assert np.array_equal(mine.weight, theirs.weight)
            assert np.array_equal(mine.bias, theirs.bias)


def test_gaussian_numbers_move_every_parameter_by_its_own(job_of, samples):
    """Per weight: numbers of `draw_perturbation`, and after each step the sum of all moves."""
    mapping = mapping_of("digits", lanes=16, columns=2)
    source, position = GaussianArraySpec(n=mapping.width, form="sum"), 123_456_789
    job, rate = job_of(mapping, source, rate=1e-3, batch=5, position=position)
    inputs, labels = samples(mapping, 5 * 20)
    count, delta = mapping.words * mapping.width, np.zeros(mapping.words * mapping.width, int)
    for number in range(20):
        z = draw_perturbation(source, position, count, mapping.width).astype(int)
        for side in (1, -1):
            e = (delta + side * (z << (28 - 6 - 10))) / 65536
            moved = np.clip(job.parts[0].part.frozen.reshape(-1) + np.rint(e).astype(int), -32768, 32767)
            found = moved_parameters(job, position, side)
            for mine, theirs in zip(found, mapping.split(moved), strict=True):
                assert np.array_equal(mine.weight, theirs.weight)
                assert np.array_equal(mine.bias, theirs.bias)
        some = slice(5 * number, 5 * number + 5)
        (step,) = job.step(inputs[some], labels[some], rate)
        assert step.position == position
        position += job.layout.span
        delta += step.coefficient * z
        assert step.coefficient
        assert np.array_equal(job.total, delta.reshape(-1, mapping.width))


def test_positions_end_where_32_bits_do(job_of, samples):
    mapping = mapping_of("digits", lanes=16, columns=2)
    source = GaussianArraySpec(n=mapping.width)
    inputs, labels = samples(mapping, 5)
    job, rate = job_of(mapping, source, position=(1 << 32) - 1)
    job.step(inputs, labels, rate)
    before = job.total.copy()
    with pytest.raises(UserError, match=r"position = 4294967[0-9]+ has more than 32 bits"):
        job.step(inputs, labels, rate)
    assert np.array_equal(job.total, before)
    with pytest.raises(UserError, match="position = 4294967296 is not in 0 to 4294967295"):
        job_of(mapping, source, position=1 << 32)


def test_words_hold_every_parameter_once(parameters):
    mapping = mapping_of("lenet5-mnist")
    assert (mapping.forward.weight_words, mapping.bias_words) == (505, 5)
    assert Split().layout(mapping, 7905).span == 511
    places = np.concatenate([part.reshape(-1) for pair in mapping.positions for part in pair])
    assert len(np.unique(places)) == len(places) == 61_706
    own = parameters(mapping)
    for mine, theirs in zip(mapping.split(mapping.flatten(own)), own, strict=True):
        assert np.array_equal(mine.weight, theirs.weight)
        assert np.array_equal(mine.bias, theirs.bias)


def test_all_directions_come_before_the_first_returns():
    mapping, source = mapping_of("lenet5-mnist"), source_of(*OTF8)
    span = Split().layout(mapping, source.period).span
    assert len({step * span % source.period for step in range(source.period)}) == source.period == 7905


def test_loss_difference_is_the_cross_entropys(job_of, samples):
    """Rms error against float64 on the same logits, with mean differences of 0.014 and 0.22."""
    mapping, source = mapping_of("digits"), source_of(*OTF8)
    inputs, labels = samples(mapping, 200)
    for eps_shift, most in ((10, 2e-4), (6, 0.02)):
        job, _ = job_of(mapping, source, eps_shift=eps_shift)
        errors, sizes = [], []
        for _ in range(30):
            (part,) = job.parts
            tables = [part.deltas.along(job.position, side) for side in job._sides]
            logits = [part.forward(inputs, table, Narrower()) for table in tables]
            exact = [torch.from_numpy(Q8_16.to_float(one)) for one in logits]
            plus, minus = (
                float(torch.nn.functional.cross_entropy(one, torch.from_numpy(labels), reduction="sum"))
                for one in exact
            )
            found = job.step(inputs, labels, 0)[0].difference * 2.0**-DIFFERENCE_FRACTION
            errors.append(found - (plus - minus))
            sizes.append(plus - minus)
        assert np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(sizes))) < most


def test_loss_difference_is_odd_in_the_sign_of_the_perturbation(job_of, samples):
    mapping, source = mapping_of("digits"), source_of(*OTF8)
    inputs, labels = samples(mapping, 20)
    job, rate = job_of(mapping, source)
    other, _ = job_of(mapping, source)
    other.eps = -job.eps
    for _ in range(5):
        job.total, job.position = other.total, other.position
        one, two = (each.step(inputs, labels, rate)[0] for each in (job, other))
        assert (one.difference, one.coefficient) == (-two.difference, -two.coefficient)
        assert np.array_equal(one.probabilities, two.probabilities[::-1])


def test_coefficient_is_the_optimisers_step(parameters, samples):
    """``- rate * slope`` of the mean loss, in units of the last places of delta and perturbation."""
    mapping, source = mapping_of("digits"), source_of(*OTF8)
    inputs, labels = samples(mapping, 12)
    rates, settings = StepSettings().with_rates([3e-4, 1e-4, 1e-7], [12] * 3, PerturbationTable(source))
    for word, rate in zip(rates, (3e-4, 1e-4, 1e-7), strict=True):
        job = ZerothOrderJob(NetworkModel(mapping, parameters(mapping)), source, settings)
        (step,) = job.step(inputs, labels, word)
        slope = step.difference * 2.0**-DIFFERENCE_FRACTION / 12 / (2 * 2.0**-10)
        assert abs(step.coefficient - -rate * slope * 2.0**18) <= 0.5 + 1e-4 * abs(step.coefficient) + 1e-2
    assert max(rates) > 1 << 15


@pytest.mark.parametrize("products", ["int64", "torch"])
def test_products_agree(products, job_of, samples):
    mapping, source = mapping_of(CHANNELS), source_of(*OTF8)
    inputs, labels = samples(mapping, 10)
    job, rate = job_of(mapping, source)
    other, _ = job_of(mapping, source, products=products)
    for _ in range(10):
        one, two = (each.step(inputs, labels, rate)[0] for each in (job, other))
        assert (one.position, one.coefficient, one.difference) == (two.position, two.coefficient, two.difference)
    assert np.array_equal(job.logits(inputs), other.logits(inputs))


def test_a_job_goes_on_from_its_state(job_of, samples):
    mapping, source = mapping_of("digits"), source_of(*OTF8)
    inputs, labels = samples(mapping, 20)
    job, rate = job_of(mapping, source)
    for _ in range(10):
        job.step(inputs, labels, rate)
    other, _ = job_of(mapping, source, position=job.position, deltas=job.total)
    for _ in range(10):
        one, two = (each.step(inputs, labels, rate)[0] for each in (job, other))
        assert one.coefficient == two.coefficient
    assert np.array_equal(job.total, other.total)


def test_tuned_parameters_give_the_jobs_logits(job_of, parameters, samples):
    mapping, source = mapping_of("digits"), source_of(*OTF8)
    inputs, labels = samples(mapping, 20)
    job, rate = job_of(mapping, source, rate=1e-2)
    for _ in range(20):
        job.step(inputs, labels, rate)
    values, tuned = inputs, job.model.tuned(job)
    for stage, own in zip(mapping.forward.network_stages, tuned, strict=True):
        values = forward(stage, own, values, product_of("int64"), Narrower())
    assert np.array_equal(values, job.logits(inputs))
    assert any((own.weight != start.weight).any() for own, start in zip(tuned, parameters(mapping), strict=True))


def test_what_is_clipped_is_counted(job_of, parameters, samples):
    mapping, source = mapping_of("digits"), source_of(*OTF8)
    inputs, labels = samples(mapping, 20)
    job = ZerothOrderJob(NetworkModel(mapping, parameters(mapping)), source, StepSettings(shift=0))
    (step,) = job.step(inputs, labels, 65535)
    assert abs(step.coefficient) in (COEFFICIENT.maximum, -COEFFICIENT.minimum)
    assert job.coefficients_clipped == 1
    total = np.full(source.base.shape, DELTA.maximum)
    job, rate = job_of(mapping, source, deltas=total)
    job.step(inputs, labels, rate)
    assert job.saturations >= mapping.words * source.width


MISTAKES = {
    "position = 7905 is not in 0 to 7904": {"position": 7905},
    "position = -1": {"position": -1},
    "deltas of \\(255, 30\\)": {"deltas": np.zeros((255, 30), int)},
    "a delta is outside Q4.28": {"deltas": np.full((255, 31), 1 << 31)},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_start_that_makes_no_sense_is_refused(mistake, parameters):
    model = NetworkModel(mapping_of("digits"), parameters(mapping_of("digits")))
    with pytest.raises(UserError, match=mistake):
        ZerothOrderJob(model, source_of(*OTF8), StepSettings(), **MISTAKES[mistake])


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda inputs, labels, rate: (inputs[:, :-1], labels, rate), "a batch of digits is n x"),
        (lambda inputs, labels, rate: (inputs, labels[:-1], rate), "a batch of digits is n x"),
        (lambda inputs, labels, rate: (inputs, labels + 10, rate), "a label of"),
        (lambda inputs, labels, rate: (inputs[:0], labels[:0], rate), "a batch of 0 samples"),
        (lambda inputs, labels, rate: (inputs, labels, 65536), "rate = 65536"),
        (lambda inputs, labels, rate: (inputs, labels, -1), "rate = -1"),
    ],
)
def test_a_batch_that_does_not_fit_changes_nothing(change, refusal, job_of, samples):
    mapping = mapping_of("digits")
    job, rate = job_of(mapping, source_of(*OTF8))
    with pytest.raises(UserError, match=refusal):
        job.step(*change(*samples(mapping, 4), rate))
    assert job.position == 0
    assert not job.total.any()


def test_an_offset_that_words_share_is_clipped_once():
    """The core computes a row's offsets once for all words sharing it, and counts clipping then."""
    spec = ZotrainSpec(**ZotrainSpec.presets["large"])
    stages = spec.described.stages
    frozen = [StageIntegers(np.zeros(one.weight_shape, np.int64), np.zeros(one.biases, np.int64)) for one in stages]
    deltas = np.zeros(spec.generator.base.shape, np.int64)
    deltas[3, 4] = DELTA.maximum
    model, narrow = NetworkModel(spec.mapping, frozen), Narrower()
    (own,) = ZerothOrderJob(model, spec.source, StepSettings(shift=24), deltas=deltas).parts
    clipped = own.part.parameters(own.offsets(own.deltas.total, narrow))
    assert narrow.saturations == 1
    # 32 rows of words share a row of deltas; each number serves two or more weights of a word
    assert sum(int((one.weight == Q4_12.maximum).sum()) for one in clipped) > 32
