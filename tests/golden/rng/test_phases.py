"""Default phases: nearly a difference set."""

import numpy as np
import pytest

from fabtune.golden.rng.lfsr import Lfsr, spread
from fabtune.golden.rng.urng import UrngSpec


def recurrences(phases, period):
    """Number of occurrences of each phase difference."""
    gaps = (phases[:, None] - phases) % period
    return np.bincount(gaps[~np.eye(len(phases), dtype=bool)], minlength=period)


@pytest.mark.parametrize(("n", "bits", "most"), [(31, 8, 7), (31, 14, 2), (15, 8, 3), (63, 16, 2)])
def test_no_difference_comes_often(n, bits, most):
    phases = spread(Lfsr(bits), n)
    assert len(set(phases.tolist())) == n
    assert recurrences(phases, Lfsr(bits).period).max() <= most


def test_equal_distances_would_bring_the_set_back():
    # avoided by the chosen phases
    assert recurrences(8 * np.arange(31), 255).max() == 30


def test_numbers_of_a_cycle_share_few_bits():
    correlation = np.corrcoef(UrngSpec().by_generator.T) - np.eye(31)
    assert np.abs(correlation).max() < 0.13


def test_two_moments_of_the_array_differ():
    sums = UrngSpec().by_generator.sum(axis=1).astype(float)
    sums -= sums.mean()
    correlation = [np.dot(sums, np.roll(sums, lag)) / np.dot(sums, sums) for lag in range(1, 255)]
    assert np.abs(correlation).max() < 0.4


def test_another_turn_is_another_choice():
    assert set(spread(Lfsr(8), 31, 1).tolist()) != set(spread(Lfsr(8), 31).tolist())
