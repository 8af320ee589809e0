"""Pool: contents, exact continuation, addresses."""

import hashlib
from math import gcd

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.rng.pool import PoolSpec
from fabtune.golden.rng.scale import expected_modulus

VARIATIONS = [
    PoolSpec(),
    PoolSpec(size=4095),
    PoolSpec(p=4, size=1020),
    PoolSpec(size=1000),
    PoolSpec(bits=16),
    PoolSpec(p=1, size=255),
]


@pytest.mark.parametrize("spec", VARIATIONS, ids=str)
def test_concatenation_without_end(spec):
    # as in the paper: the pool repeats, its remainder starts the next perturbation
    endless = np.tile(spec.numbers, 9)
    drawn = spec.draw(0, 3 * spec.size // spec.p).reshape(-1)
    assert np.array_equal(drawn, endless[: len(drawn)])


@pytest.mark.parametrize("spec", VARIATIONS, ids=str)
def test_position_is_a_place_in_the_pool(spec):
    for position in (1, spec.rows - 1, spec.rows + 5, 10**9):
        expected = spec.numbers[(position * spec.p + np.arange(3 * spec.p)) % spec.size]
        assert np.array_equal(spec.draw(position, 3).reshape(-1), expected)


def test_the_modulus_is_the_gaussians():
    for spec in VARIATIONS:
        length = np.linalg.norm(spec.format.to_float(spec.numbers))
        assert length == pytest.approx(expected_modulus(spec.size), rel=2.0 ** -(spec.bits - 3))


def test_numbers_are_uniform_and_within_the_format():
    numbers = PoolSpec().format.to_float(PoolSpec().numbers)
    assert np.abs(numbers).max() < 1.8
    counts, _ = np.histogram(numbers, 8, (-(3**0.5), 3**0.5))
    assert counts.min() > 440
    assert counts.max() < 590


def test_the_contents_are_fixed_for_ever():
    # PCG64's published stream; a changed pool would invalidate all trained models
    digest = hashlib.sha256(PoolSpec().numbers.astype("<i4").tobytes()).hexdigest()
    assert digest[:16] == "bb48b3faff51d32e"


@pytest.mark.parametrize("spec", VARIATIONS, ids=str)
def test_rows_and_addresses(spec):
    assert spec.rows == spec.size // gcd(spec.size, spec.p)
    assert len(set(spec.addresses.tolist())) == spec.rows
    numbers = spec.streams()["o"].unpack([spec.rom[a] for a in spec.addresses], ["number"])["number"]
    assert np.array_equal(numbers, spec.draw(0, spec.rows))


def test_which_sizes_have_the_one_xor_address():
    assert PoolSpec().lfsr.bits == 9
    assert PoolSpec(size=4095).lfsr.bits == 12
    assert PoolSpec(size=1000).lfsr is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 4096}, "size = 4096 is a power of two.* take 4095"),
        ({"size": 1}, "size = 1 is not in"),
        ({"p": 0}, "p = 0"),
        ({"p": 5000}, "p = 5000"),
        ({"size": 24, "p": 24}, "make one row"),
        ({"bits": 3}, "bits = 3"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        PoolSpec(**changes)


def test_a_power_of_two_can_be_forced():
    assert PoolSpec(size=4096, allow_power_of_two=True).rows == 512
