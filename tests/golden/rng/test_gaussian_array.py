"""Array of Gaussian generators: numbers, scan chain, distinct seeds."""

import hashlib

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.rng.gaussian_array import GaussianArraySpec
from fabtune.golden.rng.grng import WIDTHS, GrngSpec
from fabtune.golden.rng.perturbation import POSITIONS, FoldableSource
from fabtune.golden.rng.pezo import PezoSpec

FORMS = ("tree", "select", "sum")
POSITION = 4_294_967_000
"""Far from the start; the highest named position is 4,294,967,295."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("position", [0, POSITION])
def test_numbers_are_those_of_its_generators(form, position):
    spec = GaussianArraySpec(n=12, form=form)
    drawn = spec.draw(position, 600)
    for j, generator in enumerate(spec.generators):
        assert generator.form == form
        assert np.array_equal(drawn[:, j], generator.draw(position, 600)[:, 0])
    assert np.array_equal(2 * spec.words_at(position + np.arange(600))["number"] + 1, drawn)
    assert np.abs(drawn).max() <= spec.largest == 255


def test_period_is_that_of_a_generator_and_positions_end_before():
    spec = GaussianArraySpec()
    assert spec.period == GrngSpec().period == 5_643_118_635 > POSITIONS == 1 << 32
    assert np.array_equal(spec.draw(spec.period + 5, 10), spec.draw(5, 10))


@pytest.mark.parametrize("n", [1, 5, 16])
def test_bits_of_a_load_make_the_state(n):
    """Bit by bit through a chain of registers, each shifting towards its highest bit."""
    spec = GaussianArraySpec(n=n)
    chain = np.zeros(spec.state_bits, int)
    for bit in spec.serial(POSITION):
        chain = np.concatenate([[bit], chain[:-1]])
    ends = np.cumsum(WIDTHS * n)
    contents = [int(part @ (1 << np.arange(len(part)))) for part in np.split(chain, ends[:-1])]
    seeds = np.reshape(contents, (n, len(WIDTHS))).tolist()
    for j, own in enumerate(seeds):
        assert np.array_equal(GrngSpec(seeds=tuple(own)).draw(0, 50)[:, 0], spec.draw(POSITION, 50)[:, j])


@pytest.mark.parametrize(("n", "ring"), [(1, 1), (7, 7), (16, 8), (31, 1), (12, 6), (256, 8)])
def test_rings_divide_the_array(n, ring):
    spec = GaussianArraySpec(n=n)
    assert (spec.ring, spec.replay_cycles, spec.state_bits) == (ring, 68 * ring, 68 * n)


def test_every_generator_has_registers_of_its_own():
    spec = GaussianArraySpec(n=256)
    seeds = np.array([one.seeds for one in spec.generators])
    for level, width in enumerate(WIDTHS):
        # the second register of a width is changed where the first has equal contents
        assert len(set(seeds[:, level])) >= min(256, (1 << width) - 1) - (3 if width in WIDTHS[:level] else 0)
    assert len({one.seeds for one in GaussianArraySpec(n=1024).generators}) == 1024
    assert GaussianArraySpec(seed=1).generators != GaussianArraySpec().generators


@pytest.mark.parametrize("form", FORMS)
def test_generators_hardly_correlate(form):
    numbers = GaussianArraySpec(n=128, form=form).draw(1000, 1 << 15) / 64
    matrix = np.corrcoef(numbers.T)
    np.fill_diagonal(matrix, 0)
    assert np.abs(matrix).mean() < 0.02
    assert np.abs(matrix).max() < 0.26  # two 7-bit terms of the sum have only 127 phases for 128 generators
    assert numbers.std() == pytest.approx(GaussianArraySpec(form=form).sigma, rel=0.01)


def test_phases_are_fixed_for_ever():
    # PCG64's published stream; changed phases would invalidate every position
    digest = hashlib.sha256(GaussianArraySpec(n=128).draw(0, 1000).astype("<i4").tobytes()).hexdigest()
    assert digest[:16] == "bd6e2ba749fd4133"


def test_its_perturbations_do_not_fold():
    assert isinstance(PezoSpec(), FoldableSource)
    assert not isinstance(GaussianArraySpec(), FoldableSource)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"n": 0}, "n = 0 is not in 1 to 1024"), ({"n": 1025}, "n = 1025"), ({"seed": -1}, "seed = -1 is negative")],
)
def test_wrong_parameters_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        GaussianArraySpec(**settings)
