"""Squared errors by hand, from exact fractions, and compared with PyTorch."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.block import last_flags
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.zo.loss_difference import DIFFERENCE
from fabtune.golden.zo.mse_difference import (
    ERROR,
    MseDifferenceSpec,
    mean_squared_error,
    mse_differences,
    rate_scale,
)

ENDS = (Q8_16.minimum, Q8_16.maximum)
ONE = 1 << 16


def words_of(triples):
    """Output words for (plus logits, minus logits, targets)."""
    outputs = len(triples[0][2])
    sides = [side for plus, minus, _ in triples for side in (plus, minus)]
    targets = [target for *_, target in triples for _ in range(2)]
    inputs = {
        "i": {"logit": np.concatenate(sides)[:, None], "last": last_flags([len(side) for side in sides])},
        "target": {"target": np.concatenate(targets)[:, None]},
    }
    result = MseDifferenceSpec(outputs=outputs).run(inputs, len(triples))["o"]
    return list(zip(result["difference"][:, 0].tolist(), result["error"][:, 0].tolist(), strict=True))


def test_by_hand():
    # losses of (9 + 1) / 4 and (1 + 0) / 4
    assert words_of([([3 * ONE, 0], [ONE, ONE], [0, ONE])]) == [((9 << 29) // 4, (11 << 16) // 4)]
    # three outputs count as four
    assert words_of([([2 * ONE] * 3, [0] * 3, [ONE] * 3)]) == [(0, (6 << 16) // 8)]
    assert words_of([([5], [-7], [-7])]) == [(144 >> 4, 0)]
    # 0.5 and 1.5 last places, rounded to even
    assert [word[0] for word in words_of([([3], [1], [0]), ([5], [1], [0]), ([1], [5], [0])])] == [0, 2, -2]


def test_differences_are_clipped_at_both_ends():
    target, far = [ENDS[0]] * 2, [ENDS[1]] * 2
    found = words_of([(far, target, target), (target, far, target), (far, far, target)])
    assert [difference for difference, _ in found] == [DIFFERENCE.maximum, DIFFERENCE.minimum, 0]
    # the largest errors fit their format
    assert found[2][1] == ERROR.maximum - 511


def test_words_of_incomplete_pairs_do_not_come():
    logits = {"logit": np.arange(7)[:, None], "last": last_flags([2, 2, 2, 1])}
    spec, targets = MseDifferenceSpec(outputs=2), {"target": np.zeros((7, 1), np.int64)}
    logits["last"][-1] = 0
    assert len(spec.run({"i": logits, "target": targets}, 9)["o"]["error"]) == 1
    assert len(spec.run({"i": logits, "target": {"target": targets["target"][:3]}}, 9)["o"]["error"]) == 0


values = st.one_of(st.integers(*ENDS), st.sampled_from([*ENDS, 0, 1]))


@given(st.lists(st.tuples(values, values, values), min_size=1, max_size=12))
def test_it_is_the_difference_of_exact_sums(triples):
    plus, minus, targets = zip(*triples, strict=True)
    size = 1 << (len(targets) - 1).bit_length()
    losses = [
        sum(Fraction(one - target, ONE) ** 2 for one, target in zip(side, targets, strict=True)) / (2 * size)
        for side in (plus, minus)
    ]
    ((difference, error),) = words_of([(plus, minus, targets)])
    exact = round((losses[0] - losses[1]) * (1 << DIFFERENCE.fraction))
    assert difference == min(max(exact, DIFFERENCE.minimum), DIFFERENCE.maximum)
    assert error == round((losses[0] + losses[1]) * (1 << ERROR.fraction))
    ((odd, same),) = words_of([(minus, plus, targets)])
    assert same == error
    assert odd == -difference or DIFFERENCE.minimum in (odd, difference)


@pytest.mark.parametrize("outputs", [1, 10, 64, 640])
def test_they_are_pytorchs_mean_squared_errors(outputs):
    rng = np.random.default_rng(0)
    targets, plus, minus = Q8_16.from_float(rng.normal(0, 1, (3, 50, outputs)))
    differences, errors = mse_differences(plus - targets, minus - targets)
    mean = [
        torch.nn.functional.mse_loss(*(torch.from_numpy(Q8_16.to_float(one)) for one in (side, targets))).item()
        for side in (plus, minus)
    ]
    found = DIFFERENCE.to_float(differences).mean() * rate_scale(outputs)
    assert found == pytest.approx(mean[0] - mean[1], abs=1e-7)
    assert mean_squared_error(errors, outputs) == pytest.approx(sum(mean) / 2, abs=2e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MseDifferenceSpec(outputs=0), "outputs = 0 is not in 1 to 16384"),
        (lambda: MseDifferenceSpec(outputs=16385), "outputs = 16385"),
        (lambda: words_of([([1, 2, 3], [1, 2, 3], [1, 2])]), "a side of 3 logits; here all have 2"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()
