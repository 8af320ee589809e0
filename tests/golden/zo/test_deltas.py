"""Perturbation tables: word numbers, and the table of each word."""

import numpy as np
import pytest

from fabtune.golden.rng.gaussian_array import GaussianArraySpec
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.deltas import Deltas, PerturbationTable

SOURCES = {"otf8": (), "pool": ("pool.p=32",)}


@pytest.mark.parametrize("preset", SOURCES)
@pytest.mark.parametrize("words", [1, 20, 600])
def test_a_table_is_folded_from_its_numbers(preset, words):
    table = PerturbationTable(build(PezoSpec, SOURCES[preset], preset))
    rng = np.random.default_rng(0)
    own, other = (rng.integers(-(1 << 31), 1 << 31, table.base.shape) for _ in range(2))
    kept = other.copy()
    found = table.folded(table.spread(own, words), other)
    assert np.array_equal(table.spread(found, words), table.spread(own, words))
    # rows without a word belong to the other table
    rows = min(words, len(own))
    assert np.array_equal(found[:rows], own[:rows])
    assert np.array_equal(found[rows:], other[rows:])
    assert np.array_equal(other, kept)


def test_without_a_base_every_word_has_its_own_numbers():
    source, words = GaussianArraySpec(n=16), 600
    table = PerturbationTable(source, words)
    assert (table.base, table.shape, str(table.format), table.fraction) == (None, (600, 16), "Q3.6", 6)
    assert np.array_equal(table.spread(table.at(77), words), source.draw(77, words))
    rng = np.random.default_rng(0)
    own = rng.integers(-(1 << 31), 1 << 31, table.shape)
    assert np.array_equal(table.spread(own, words), own)
    assert np.array_equal(table.folded(own, np.zeros_like(own)), own)
    deltas = Deltas(table)
    for position, coefficient in ((0, 5), (4_000_000_000, -7), (12, 1 << 26)):
        deltas.add(position, coefficient)
    total = 5 * table.at(0) - 7 * table.at(4_000_000_000) + (table.at(12) << 26)
    assert np.array_equal(deltas.total.astype(np.int32), total.astype(np.int32))
    assert np.array_equal(deltas.along(3, -9), deltas.total - 9 * table.at(3))


@pytest.mark.parametrize("settings", ["", "scale.urng.bits=14", "scale.mode=pow2", "strategy=pool", "leap=4"])
def test_the_format_is_that_of_the_largest_number(settings):
    table = PerturbationTable(build(PezoSpec, settings.split()))
    largest = np.abs(table.base).max()
    assert 1 << (table.format.width - 2) <= largest < 1 << (table.format.width - 1)
