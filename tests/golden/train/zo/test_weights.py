"""Integer parameters: restored bits, sums in any order, any number of steps as one short table."""

import random

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.rng.pool import PoolSpec
from fabtune.golden.rng.scale import ScaleSpec
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.settings import build
from fabtune.golden.train.zo import Periodic
from fabtune.golden.train.zo.weights import FloatWeights, IntegerWeights

Q4_28 = Format(4, 28)
SIZES = [(129, 31), (31,), (7, 3, 5), (1,), (20_003,)]
COUNT = sum(int(np.prod(size)) for size in SIZES)
SOURCES = {
    "pool": Periodic(PezoSpec(strategy="pool")),
    "pool, 4095": Periodic(PoolSpec(size=4095), lanes=100),
    "otf8": Periodic(PezoSpec()),
    "otf8, 8 lanes": Periodic(PezoSpec(), lanes=8),
    "otf14": Periodic(build(BLOCKS["pezo"], ["urng.bits=14"]), fraction=10),
    "not coprime": Periodic(ScaleSpec(urng=UrngSpec(n=15, bits=4))),
}


def tensors(dtype=torch.float32, width=0.1):
    torch.manual_seed(0)
    return [torch.randn(size).mul_(width).to(dtype) for size in SIZES]


def flat(weights):
    return torch.cat(weights.integers)


def steps(count, seed=0, largest=1 << 31):
    rng = random.Random(seed)
    return [(rng.randrange(10**12), rng.randrange(-largest, largest)) for _ in range(count)]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_perturb_and_undo_return_the_bits(name, dtype):
    weights = IntegerWeights(tensors(dtype), SOURCES[name], Q4_28)
    before, shown = flat(weights), [one.clone() for one in weights.tensors]
    for position in (0, 123, 10**15):
        for eps in (weights.snap(1e-3), weights.snap(7.3)):  # the second overflows
            for amount in (eps, -2 * eps, eps):
                weights.add(position, amount)
        assert torch.equal(flat(weights), before)
    assert all(torch.equal(*pair) for pair in zip(weights.tensors, shown, strict=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_floats_drift(dtype):
    """MeZO's in-place perturb and restore: after 20 steps without update the weights have changed."""
    weights = FloatWeights(tensors(dtype), SOURCES["pool"])
    before = [one.clone() for one in weights.tensors]
    for step in range(20):
        for amount in (1e-3, -2e-3, 1e-3):
            weights.add(step * 10_000, amount)
    changed = sum(int((now != then).sum()) for now, then in zip(weights.tensors, before, strict=True))
    assert changed / COUNT > {torch.float16: 0.6, torch.bfloat16: 0.6, torch.float32: 0.6}[dtype]


def test_a_move_is_goldens_integers_modulo_2_to_the_32():
    weights = IntegerWeights(tensors(), SOURCES["otf8"], Q4_28)
    expected = flat(weights).numpy().astype(np.int64)
    wrapped = 0
    for position, amount in ((0, 1e-3), (10**9, 5.0), (77, -7.9), (78, -7.9)):
        coefficient = weights.coefficient(amount)
        assert coefficient == round(amount * 2**18)
        weights.add(position, amount)
        expected += coefficient * draw_perturbation(PezoSpec(), position, COUNT, 32).astype(np.int64)
        wrapped += int(np.count_nonzero(expected >> 31 != expected >> 63))
    assert wrapped > 0
    assert np.array_equal(flat(weights).numpy(), expected.astype(np.uint32).view(np.int32))


@pytest.mark.parametrize("name", SOURCES)
def test_the_order_of_steps_does_not_matter(name):
    found = []
    for seed in range(3):
        weights = IntegerWeights(tensors(), SOURCES[name], Q4_28)
        made = steps(50)
        random.Random(seed).shuffle(made)
        for position, coefficient in made:
            weights.add(position, coefficient * weights.resolution)
        found.append(flat(weights))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("largest", [500, 1 << 31])
def test_a_thousand_steps_are_one_short_vector(name, largest):
    source = SOURCES[name]
    replayed = torch.cat([one.view(-1) for one in IntegerWeights(tensors(), source, Q4_28).integers])
    made = steps(1000, 1, largest)
    for position, coefficient in made:
        source.add_(replayed, position, 0, coefficient)
    total = source.accumulate(made)
    assert total.shape == source.spec.base.shape
    weights = IntegerWeights(tensors(), source, Q4_28)
    weights.apply(source.table_of(total))
    assert torch.equal(flat(weights), replayed)


def test_sums_of_steps_can_be_added():
    """A server may add clients' sums in any order before applying them."""
    source, made = SOURCES["otf8"], steps(30)
    parts = source.accumulate(made[:11]) + source.accumulate(made[11:])
    assert torch.equal(parts, source.accumulate(reversed(made)))
    assert not source.accumulate([]).any()
    # equal positions modulo the period give equal perturbations
    one, two = 5, 5 + 3 * source.spec.period
    assert torch.equal(source.accumulate([(one, 7), (two, -4)]), source.accumulate([(one, 3)]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_the_tensors_hold_the_integers_values(dtype):
    weights = IntegerWeights(tensors(dtype), SOURCES["pool"], Q4_28)
    weights.add(3, 0.25)
    for integers, tensor in zip(weights.integers, weights.tensors, strict=True):
        values = torch.ldexp(integers.to(torch.promote_types(dtype, torch.float32)), torch.tensor(-28))
        assert torch.equal(tensor.view(-1), values.to(dtype))


def test_rounding_to_the_format_is_half_to_even():
    half = 2.0**-29
    values = [half, 3 * half, -half, 8 - 2 * half, -8.0]
    weights = IntegerWeights([torch.tensor(values, dtype=torch.float64)], SOURCES["pool"], Q4_28)
    assert flat(weights).tolist() == [0, 2, 0, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("value", [8.0, -8.1, float("nan"), float("inf")])
def test_weights_outside_the_format_are_refused(value):
    with pytest.raises(UserError, match=r"outside Q4\.28"):
        IntegerWeights([torch.tensor([0.0, value])], SOURCES["pool"], Q4_28)


def test_other_mistakes_are_refused():
    source = SOURCES["pool"]
    with pytest.raises(UserError, match="32 bits"):
        IntegerWeights(tensors(), source, Format(4, 12))
    weights = IntegerWeights(tensors(), source, Q4_28)
    before = flat(weights)
    for amount in (1e9, float("nan")):
        with pytest.raises(UserError, match="overflows"):
            weights.add(0, amount)
    with pytest.raises(UserError, match="does not fit this source"):
        source.table_of(torch.zeros(3, 8, dtype=torch.int32))
    with pytest.raises(UserError, match="saved integers do not fit"):
        weights.load(weights.integers[:-1])
    assert torch.equal(flat(weights), before)
