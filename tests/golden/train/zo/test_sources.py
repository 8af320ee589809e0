"""Perturbation sources compared with golden integers; independent sources with their distributions."""

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.rng.pool import PoolSpec
from fabtune.golden.rng.scale import ScaleSpec
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.settings import build
from fabtune.golden.train.zo import Gaussian, Periodic, Rademacher, Uniform
from fabtune.golden.train.zo.periodic import FLAT_LIMIT


def on_the_fly(*settings):
    return build(BLOCKS["pezo"], settings)


SPECS = {
    "pool": PezoSpec(strategy="pool"),
    "pool, 4095": PoolSpec(size=4095),
    "otf8": PezoSpec(),
    "otf14": on_the_fly("urng.bits=14"),
    "leap 4": on_the_fly("leap=4"),
    "power of two": on_the_fly("mode=pow2", "n=7", "urng.bits=6"),
    "constant": on_the_fly("mode=constant"),
    # 15 generators of period 15: the joint period is not the product
    "not coprime": ScaleSpec(urng=UrngSpec(n=15, bits=4)),
}
POSITIONS = [0, 12_345, 10**15 + 7]
INDEPENDENT = [Gaussian(3), Rademacher(3), Uniform(3)]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 3, 5), nn.Flatten(), nn.Linear(433, 129), nn.LayerNorm(129), nn.Linear(129, 301, bias=False)
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("lanes", [8, 32, 100])
def test_a_models_vector_is_goldens_element_for_element(name, lanes, device):
    source = Periodic(SPECS[name], lanes)
    tensors = [one.detach().to(device) for one in network().parameters()]
    count = sum(one.numel() for one in tensors)
    for position in POSITIONS:
        expected = draw_perturbation(SPECS[name], position, count, lanes)
        offset = 0
        for tensor in tensors:
            part = expected[offset : offset + tensor.numel()]
            found = source.draw(position, tensor.numel(), offset, torch.int32, device)
            assert np.array_equal(found.cpu().numpy(), part)
            values = source.draw(position, tensor.numel(), offset, torch.float64, device)
            assert np.array_equal(values.cpu().numpy(), np.ldexp(part.astype(float), -source.fraction_bits))
            offset += tensor.numel()


def test_long_joint_periods_are_read_along_diagonals():
    """Covers both ways of reading, over several periods of one generator."""
    spec = SPECS["otf14"]
    assert spec.period * 32 > FLAT_LIMIT > SPECS["otf8"].period * 100
    weights = 33 * spec.scale.urng.lfsr.period + 1234
    found = Periodic(spec).draw(777, weights, dtype=torch.int32)
    assert np.array_equal(found.numpy(), draw_perturbation(spec, 777, weights, 32))


@pytest.mark.parametrize("name", ["pool", "otf8", "otf14"])
def test_the_numbers_are_those_on_the_cores_stream(name):
    """The reference of `verify` for the RTL, word by word after reset."""
    spec, lanes, words = SPECS[name], 32, 300
    stream = spec.run({}, words)["o"]
    numbers = stream["number"] if name == "pool" else (2 * stream["number"] + 1) * stream["scale"]
    over_lanes = numbers[:, np.arange(lanes) % spec.width].reshape(-1)
    assert np.array_equal(Periodic(spec, lanes).draw(0, words * lanes, dtype=torch.int32).numpy(), over_lanes)


@pytest.mark.parametrize("source", [*INDEPENDENT, Periodic(PezoSpec()), Periodic(SPECS["otf14"])], ids=repr)
def test_any_part_can_be_added_in_any_pieces(source):
    weights, offset = 150_000, 40_001
    whole = source.draw(5, weights, offset)
    for size in (1 << 16, 77_777, 6_007):
        pieces = [source.draw(5, min(size, weights - at), offset + at) for at in range(0, weights, size)]
        assert torch.equal(torch.cat(pieces), whole)


@pytest.mark.parametrize("source", [*INDEPENDENT, Periodic(PezoSpec()), Periodic(SPECS["otf14"])], ids=repr)
def test_the_next_perturbation_starts_where_the_last_ended(source):
    block = 32 * 5 if isinstance(source, Periodic) else source.block
    assert source.span(block) == source.span(block - 1) == source.span(block + 1) - 1
    assert torch.equal(source.draw(source.span(block), 1000), source.draw(0, 1000, block))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("source", INDEPENDENT, ids=repr)
def test_independent_numbers_are(source, device):
    """Mean, variance and kurtosis within five standard errors; uncorrelated blocks."""
    count = 16 * source.block
    values = source.draw(9, count, device=device).double().cpu()
    variance, kurtosis = {Gaussian: (1, 3), Rademacher: (1, 1), Uniform: (1 / 3, 9 / 5)}[type(source)]
    moments = [values.pow(k).mean().item() for k in range(1, 5)]
    higher = {Gaussian: (15, 105), Rademacher: (1, 1), Uniform: (1 / 7, 1 / 9)}[type(source)]
    fourth = kurtosis * variance**2
    errors = [variance, fourth - variance**2, higher[0], higher[1] - fourth**2]
    for found, expected, square in zip(moments, (0, variance, 0, fourth), errors, strict=True):
        assert abs(found - expected) <= 5 * (square / count) ** 0.5 + 1e-6
    blocks = values.view(16, -1) / variance**0.5
    correlations = blocks @ blocks.T / source.block - torch.eye(16)
    assert correlations.fill_diagonal_(0).abs().max() < 5 / source.block**0.5


@pytest.mark.parametrize("name", ["pool", "pool, 4095", "not coprime"])
@pytest.mark.parametrize("weights", [14 * 32, 45 * 32 - 5, 511 * 32])
def test_directions_are_counted(name, weights):
    source = Periodic(SPECS[name])
    starts = [k * source.span(weights) for k in range(source.spec.period)]
    drawn = {source.draw(start, weights).numpy().tobytes() for start in starts}
    assert source.directions(weights) == len(drawn)


@pytest.mark.parametrize("source", [*INDEPENDENT, Periodic(PezoSpec()), Periodic(SPECS["otf14"])], ids=repr)
def test_no_temporary_is_as_long_as_the_vector(source):
    flat = torch.zeros(3_000_000)
    source.add_(flat, 5, 7, 0.1)
    with torch.autograd.profiler.profile(profile_memory=True) as seen:
        source.add_(flat, 5, 7, 0.1)
    assert max(event.cpu_memory_usage for event in seen.function_events) <= 1 << 18


def test_what_the_numbers_are():
    assert set(Rademacher().draw(0, 1000).tolist()) == {-1.0, 1.0}
    wide = Uniform(half_width=128).draw(0, 100_000)
    assert -128 <= wide.min() < -127
    assert 127 < wide.max() < 128
    assert not torch.equal(Gaussian(0).draw(0, 100), Gaussian(1).draw(0, 100))
    assert torch.equal(Gaussian(2).draw(10**12, 100), Gaussian(2).draw(10**12, 100))


@pytest.mark.parametrize("source", [Gaussian(), Periodic(PezoSpec())], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_all_floats_take_the_same_numbers_rounded(source, dtype):
    assert torch.equal(source.draw(3, 1000, dtype=dtype), source.draw(3, 1000).to(dtype))


def test_narrowed_numbers_are_goldens_rounded_half_to_even():
    spec = SPECS["otf14"]
    source = Periodic(spec, fraction=10)
    exact = draw_perturbation(spec, 99, 5000, 32)
    assert source.fraction_bits == 10
    found = source.draw(99, 5000, dtype=torch.int32).numpy()
    assert np.array_equal(found, np.rint(np.ldexp(exact.astype(float), 10 - spec.fraction_bits)))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Periodic(PezoSpec(), 0), "lanes = 0"),
        (lambda: Periodic(PezoSpec(), fraction=11), "fraction = 11"),
        (lambda: Gaussian(-1), "seed = -1"),
        (lambda: Gaussian(block=8), "block = 8"),
        (lambda: Uniform(half_width=0), "half_width = 0"),
        (lambda: Gaussian().draw(-1, 5), "position -1"),
        (lambda: Gaussian().draw(0, 5, dtype=torch.int32), "cannot be added to torch.int32"),
        (lambda: Periodic(PezoSpec()).draw(0, 5, dtype=torch.int64), "not to torch.int64"),
    ],
)
def test_wrong_sources_are_refused(make, named):
    with pytest.raises(UserError, match=named):
        make()
