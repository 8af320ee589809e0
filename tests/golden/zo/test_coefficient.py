"""Coefficients compared with exact fractions: ties, limits, all shifts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.block import last_flags
from fabtune.golden.errors import UserError
from fabtune.golden.zo.coefficient import (
    COEFFICIENT,
    LARGEST_BATCH,
    LARGEST_SHIFT,
    RATE,
    SHIFT,
    STEP_DIFFERENCE,
    CoefficientSpec,
)
from fabtune.golden.zo.loss_difference import DIFFERENCE


def words_of(*steps):
    """Output words for steps (differences, rate, shift)."""
    inputs = {
        "i": {
            "difference": np.concatenate([step[0] for step in steps])[:, None],
            "last": last_flags([len(step[0]) for step in steps]),
        },
        "rate": {name: np.array([step[at] for step in steps])[:, None] for at, name in ((1, "rate"), (2, "shift"))},
    }
    result = CoefficientSpec().run(inputs, len(steps))["o"]
    columns = [result[name][:, 0].tolist() for name in ("difference", "coefficient", "clipped")]
    return list(zip(*columns, strict=True))


differences = st.lists(
    st.one_of(
        st.integers(DIFFERENCE.minimum, DIFFERENCE.maximum),
        st.integers(-10, 10),
        st.sampled_from([DIFFERENCE.minimum, DIFFERENCE.maximum]),
    ),
    min_size=1,
    max_size=LARGEST_BATCH,
)
rates = st.one_of(st.integers(0, RATE.maximum), st.sampled_from([0, 1, RATE.maximum]))


@given(differences, rates, st.integers(0, LARGEST_SHIFT))
def test_a_coefficient_is_the_nearest_in_range(found, rate, shift):
    exact = round(Fraction(-sum(found) * rate, 1 << shift))
    clipped = min(max(exact, COEFFICIENT.minimum), COEFFICIENT.maximum)
    assert words_of((found, rate, shift)) == [(sum(found), clipped, int(clipped != exact))]


def test_ties_and_ends():
    most, least = COEFFICIENT.maximum, COEFFICIENT.minimum
    assert (most, least) == ((1 << 26) - 1, -(1 << 26))
    found = words_of(
        *(([-total], 1, 1) for total in (1, 3, 5, -1, -3)),
        ([-(2 * most + 1)], 1, 1),
        ([-(2 * least - 1)], 1, 1),
        ([-most, 0, 0], 1, 0),
        ([-most - 1], 1, 0),
        ([-(4 * most + 1)], 1, 2),
        ([-(4 * least - 3)], 1, 2),
    )
    assert [word[1:] for word in found] == [
        *((0, 0), (2, 0), (2, 0), (0, 0), (-2, 0)),
        (most, 1),  # a tie to the even integer beyond the limit
        (least, 0),
        (most, 0),
        (most, 1),
        (most, 0),
        (least, 1),
    ]


def test_the_largest_step_fits():
    for end in (DIFFERENCE.minimum, DIFFERENCE.maximum):
        assert STEP_DIFFERENCE.minimum <= LARGEST_BATCH * end <= STEP_DIFFERENCE.maximum
    ends = ([DIFFERENCE.minimum] * LARGEST_BATCH, RATE.maximum), ([DIFFERENCE.maximum] * LARGEST_BATCH, RATE.maximum)
    assert words_of(*((*end, LARGEST_SHIFT) for end in ends)) == [
        (STEP_DIFFERENCE.minimum, 2, 0),
        (LARGEST_BATCH * DIFFERENCE.maximum, -2, 0),
    ]
    assert STEP_DIFFERENCE.width == 48
    assert SHIFT.maximum >= LARGEST_SHIFT


def test_latency_and_period():
    spec = CoefficientSpec()
    assert [spec.latency_of(shift) for shift in (0, 1, LARGEST_SHIFT)] == [21, 22, 83]
    assert spec.period(20, 30) == 71


@pytest.mark.parametrize(
    ("step", "message"),
    [(([0] * 257, 1, 0), "a step of 257 samples; the largest has 256"), (([0], 1, 63), "shift = 63 is not in 0 to 62")],
)
def test_a_step_that_does_not_fit_is_refused(step, message):
    with pytest.raises(UserError, match=message):
        words_of(step)
