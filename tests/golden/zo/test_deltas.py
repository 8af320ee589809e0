"""Tables of perturbations: numbers of words, and the table that has them."""

import numpy as np
import pytest

from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.deltas import PerturbationTable

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
    # rows that no word has are those of the other table
    rows = min(words, len(own))
    assert np.array_equal(found[:rows], own[:rows])
    assert np.array_equal(found[rows:], other[rows:])
    assert np.array_equal(other, kept)
