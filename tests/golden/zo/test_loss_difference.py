"""Loss differences by hand, from exact fractions, and compared with float64 cross entropy; exact cycles."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.block import last_flags
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.nn.softmax import LARGEST_SAMPLE, SoftmaxTables
from fabtune.golden.zo.loss_difference import (
    DIFFERENCE,
    DIFFERENCE_FRACTION,
    LARGEST_DIFFERENCE,
    LARGEST_ROW,
    LossDifferenceSpec,
    loss_differences,
)

TABLES = SoftmaxTables()
ENDS = (Q8_16.minimum, Q8_16.maximum)


def words_of(pairs, labels, classes=10):
    """Output words for pairs (plus logits, minus logits)."""
    sides = [side for pair in pairs for side in pair]
    logits = np.concatenate(sides)[:, None]
    inputs = {
        "i": {"logit": logits, "last": last_flags([len(side) for side in sides])},
        "label": {"label": np.array(labels)[:, None]},
    }
    result = LossDifferenceSpec(classes=classes).run(inputs, len(pairs))["o"]
    return [tuple(int(result[name][at, 0]) for name in ("difference", "plus", "minus")) for at in range(len(pairs))]


def test_by_hand():
    far = 20 << 16
    # two equal logits against a certain class: (1/2 + 1 - 2) (0 - 20) / 2
    assert words_of([([0, 0], [far, 0])], [0]) == [(5 << DIFFERENCE_FRACTION, 2048, 4096)]
    assert words_of([([5], [-7])], [0]) == [(0, 4096, 4096)]
    # an invalid label subtracts nothing
    assert words_of([([5], [-7]), ([0, far], [0, far])], [1, 2]) == [(8192 * 12, 0, 0), (0, 0, 0)]


def test_words_of_incomplete_pairs_do_not_come():
    pairs = [([1, 2, 3], [4, 5, 6]), ([1], [2])]
    assert len(words_of(pairs, [0, 0])) == 2
    logits = {"logit": np.arange(3)[:, None], "last": np.array([[1], [1], [0]])}
    assert len(LossDifferenceSpec().run({"i": logits, "label": {"label": np.array([[0]])}}, 9)["o"]["plus"]) == 1
    assert len(LossDifferenceSpec().run({"i": logits, "label": {"label": np.zeros((0, 1))}}, 9)["o"]["plus"]) == 0


logit_lists = st.lists(st.one_of(st.integers(*ENDS), st.sampled_from([*ENDS, 0, 1])), min_size=1, max_size=12)


@given(logit_lists, st.randoms(use_true_random=False), st.integers(0, 255))
def test_it_is_the_trapezoid_on_the_softmax(plus, random, label):
    minus = [random.choice([one, random.randint(*ENDS)]) for one in plus]
    slopes = [
        [Fraction(int(p), 4096) - (at == label) for at, p in enumerate(TABLES.probabilities(np.array([side]))[0])]
        for side in (plus, minus)
    ]
    area = sum(
        (a + b) / 2 * Fraction(right - left, 1 << 16) for a, b, left, right in zip(*slopes, minus, plus, strict=True)
    )
    ((difference, *own),) = words_of([(plus, minus)], [label], 12)
    assert Fraction(difference, 1 << DIFFERENCE_FRACTION) == area
    assert own == [slope[label] * 4096 + 4096 if label < len(plus) else 0 for slope in slopes]
    ((odd, *_),) = words_of([(minus, plus)], [label], 12)
    assert odd == -difference


def test_small_differences_are_the_cross_entropys():
    rng = np.random.default_rng(0)
    plus = Q8_16.from_float(rng.normal(0, 3, (500, 10)))
    minus, labels = plus + rng.integers(-1000, 1001, plus.shape), rng.integers(0, 10, 500)
    exact = [
        torch.nn.functional.cross_entropy(
            torch.from_numpy(Q8_16.to_float(side)), torch.from_numpy(labels), reduction="none"
        ).numpy()
        for side in (plus, minus)
    ]
    found = loss_differences(plus, minus, labels, TABLES)[0] * 2.0**-DIFFERENCE_FRACTION
    wanted = exact[0] - exact[1]
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 2e-3 * np.sqrt(np.mean(wanted**2))


def test_no_difference_exceeds_its_format():
    assert DIFFERENCE.width == 40
    assert DIFFERENCE.maximum // 2 < LARGEST_DIFFERENCE <= DIFFERENCE.maximum
    # largest sum with each reciprocal, times the reciprocal: everything but rounding of single classes
    mantissas = np.arange(1 << TABLES.mantissa)
    sums = np.minimum(1 + (mantissas + 0.5) * 2.0**-TABLES.mantissa, 2)
    sums[-1] = 2
    largest = (sums * TABLES.reciprocals).max() / 65536 * 4096 + LARGEST_SAMPLE / 2
    assert 4096 < largest <= LARGEST_ROW
    # half of the classes at each limit, far from the label: the maximum, about 2 * 2**24
    plus = np.array([[ENDS[1], ENDS[0]] * 5])
    found, _ = loss_differences(plus, plus[:, ::-1], np.array([0]), TABLES)
    assert abs(int(found[0])) < LARGEST_DIFFERENCE


@pytest.mark.parametrize(
    ("classes", "length"),
    [(classes, length) for classes in (2, 10, 256) for length in (1, 2, 3, 5, 10, 100, 256) if length <= classes],
)
def test_a_steady_stream_has_its_period(classes, length):
    spec = LossDifferenceSpec(classes=classes)
    assert spec.cycles([length] * 20) - spec.cycles([length] * 19) == spec.period(length)
    assert spec.cycles([length]) == spec.softmax.period(length) + length + spec.latency_of(length)


def test_periods_and_latencies():
    spec = LossDifferenceSpec()
    assert [spec.latency_of(n) for n in (1, 2, 10)] == [26, 35, 107]
    assert [spec.period(n) for n in (1, 2, 8, 9, 10)] == [22, 28, 65, 73, 81]
    assert LossDifferenceSpec(classes=256).latency_of(256) == 2326


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LossDifferenceSpec(classes=0), "classes = 0 is not in 1 to 256"),
        (lambda: LossDifferenceSpec(classes=257), "classes = 257"),
        (lambda: words_of([([1, 2, 3], [1, 2, 3])], [0], 2), "a sample of 3 logits; the longest here is 2"),
        (lambda: words_of([([1, 2], [1, 2, 3])], [0]), "a pair of 2 and 3 logits"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()
