"""`partial_sums` compared with hand-computed sums: interleaved rows, output order, limits of 56 bits; refusals."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.array.partial_sums import MOST_INPUTS, TOTAL, PartialSumsSpec
from fabtune.golden.stream.array.tile_array import SUM

SPEC = PartialSumsSpec(columns=2, sums=4, drain=1)


def run(terms, words=100):
    """Sum, row and segment of each output word, for terms (row, first, last, sums)."""
    rows, first, last, sums = (np.array(column, np.int64) for column in zip(*terms, strict=True))
    given = {"sum": sums, "row": rows[:, None], "first": first[:, None], "last": last[:, None]}
    found = SPEC.run({"i": given}, words)["o"]
    return [tuple(int(found[name][at, 0]) for name in ("sum", "row", "part")) for at in range(len(found["sum"]))]


def test_rows_leave_as_they_are_complete():
    terms = [
        (0, 1, 0, [1, 2]),
        (3, 1, 0, [10, 20]),
        (0, 0, 0, [100, 200]),
        (3, 0, 1, [5, 5]),
        (3, 1, 1, [7, 8]),  # a single-tile group while row 0 is in progress
        (0, 0, 1, [-1, -2]),
    ]
    expected = [(15, 3, 0), (25, 3, 1), (7, 3, 0), (8, 3, 1), (100, 0, 0), (200, 0, 1)]
    assert run(terms) == expected
    assert run(terms, words=3) == expected[:3]


def terms_of(row, count):
    """Largest and smallest possible terms of a row."""
    return [(row, at == 0, at == count - 1, [SUM.maximum, SUM.minimum]) for at in range(count)]


def test_sums_at_the_ends_are_exact():
    assert run(terms_of(1, 256)) == [(256 * SUM.maximum, 1, 0), (TOTAL.minimum, 1, 1)]
    assert MOST_INPUTS == (1 << 15) - 1


def test_a_sum_beyond_56_bits_is_refused():
    with pytest.raises(UserError, match="row 2 has a sum beyond 56 bits"):
        run(terms_of(2, 257))


def test_a_row_that_was_not_begun_is_refused():
    with pytest.raises(UserError, match="row 1 has no first term"):
        run([(1, 1, 1, [0, 0]), (1, 0, 1, [0, 0])])


@pytest.mark.parametrize(
    "settings", [{"columns": 0}, {"columns": 65}, {"sums": 2}, {"sums": 24}, {"sums": 8192}, {"drain": 0}, {"drain": 3}]
)
def test_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(UserError, match=f"{name} = {value}"):
        PartialSumsSpec(**settings)
