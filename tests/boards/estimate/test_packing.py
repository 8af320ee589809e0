"""Pairing of small LUTs: every pair fits one LUT6, no LUT is used twice, and the result is deterministic."""

import random
from itertools import chain

import pytest

from fabtune.boards.estimate.packing import MAX_INPUTS, pair_luts


def nets(*names: str) -> frozenset[str]:
    return frozenset("".join(names))


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ("abc", "abd", True),  # two shared inputs, four nets
        ("sab", "scd", True),  # one shared select: five nets
        ("abcde", "abcde", True),
        ("abcde", "ab", True),
        ("abcd", "cdef", False),  # six nets
        ("abcdef", "abc", False),  # a LUT6 has no free inputs
        ("ab", "cd", False),  # fits, but shares nothing: Vivado does not look for such pairs
    ],
)
def test_what_fits_one_lut(first: str, second: str, fits: bool) -> None:
    assert len(pair_luts([nets(first), nets(second)])) == fits


def test_the_closest_pairs_come_first() -> None:
    luts = [nets("abc"), nets("ade"), nets("abc"), nets("ade")]
    assert sorted(map(sorted, pair_luts(luts))) == [[0, 2], [1, 3]]


def test_a_large_lut_is_not_starved_by_small_ones() -> None:
    # the two-input LUT fits both others, and is the only partner of the five-input LUT
    luts = [nets("abf"), nets("ab"), nets("abcde")]
    assert sorted(map(sorted, pair_luts(luts))) == [[1, 2]]


def test_random_netlists() -> None:
    source = random.Random(1)
    luts = [
        frozenset(source.sample(range(first, first + 30), source.randint(1, 6)))
        for first in (source.randrange(200) for _ in range(1500))
    ]
    pairs = pair_luts(luts)
    used = list(chain.from_iterable(pairs))
    assert len(pairs) > 300
    assert len(used) == len(set(used))
    assert all(len(luts[a] | luts[b]) <= MAX_INPUTS and luts[a] & luts[b] for a, b in pairs)
    assert pairs == pair_luts(luts)
