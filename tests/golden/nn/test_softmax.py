"""Table softmax compared with SciPy, and its limits."""

import numpy as np
import pytest
from scipy.special import softmax

from fabtune.golden.block import last_flags
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16
from fabtune.golden.nn.softmax import SoftmaxSpec, SoftmaxTables


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("spread", [0.1, 3.0, 20.0])
def test_is_softmax_within_half_a_percent_and_a_rounding(classes, spread):
    rng = np.random.default_rng(classes)
    logits = Q8_16.from_float(rng.normal(0, spread, (400, classes)))
    found = Q4_12.to_float(SoftmaxTables().probabilities(logits))
    exact = softmax(Q8_16.to_float(logits), axis=1)
    # at most half a distance step, 2**-8, plus half a reciprocal step, 2**-11
    assert np.abs(found - exact).max() <= 2**-13 + exact.max() * 0.006
    assert np.abs(found - exact).mean() < 2**-11


def test_certainty_is_exactly_one_and_zero():
    logits = np.array([[Q8_16.maximum, Q8_16.minimum, 0], [0, 16 << 16, 0]])
    assert SoftmaxTables().probabilities(logits).tolist() == [[4096, 0, 0], [0, 4096, 0]]


def test_equal_logits_share():
    assert SoftmaxTables().probabilities(np.zeros((1, 4), np.int64)).tolist() == [[1024] * 4]
    assert SoftmaxTables().probabilities(np.full((1, 2), -5)).tolist() == [[2048] * 2]


def test_only_distances_count():
    rng = np.random.default_rng(0)
    logits = Q8_16.from_float(rng.normal(0, 2, (50, 10)))
    assert np.array_equal(SoftmaxTables().probabilities(logits), SoftmaxTables().probabilities(logits - 12345))


def test_gradient_takes_one_from_the_label():
    logits = Q8_16.from_float(np.array([[1.0, 2.0], [0.5, -0.5]]))
    expected = SoftmaxTables().probabilities(logits) - np.array([[0, 4096], [4096, 0]])
    assert np.array_equal(SoftmaxTables().gradient(logits, np.array([1, 0])), expected)


def test_tables_fit_their_memories():
    tables = SoftmaxTables()
    assert len(tables.exponentials) == 2048
    assert tables.exponentials.max() == 1 << 17
    assert tables.exponentials[-1] == 0
    assert len(tables.reciprocals) == 1024
    assert tables.reciprocals[0] == 1 << 16
    assert np.all(np.diff(tables.exponentials) <= 0)
    assert np.all(np.diff(tables.reciprocals) < 0)


def test_a_sample_that_has_not_ended_gives_nothing_and_a_longer_one_is_refused():
    given = {"logit": np.zeros((5, 1), np.int64), "last": np.array([[0], [1], [0], [0], [0]])}
    assert SoftmaxSpec().run({"i": given}, 9)["o"]["probability"][:, 0].tolist() == [2048, 2048]
    with pytest.raises(UserError, match="a sample of 5 logits; the longest here is 4"):
        SoftmaxSpec(classes=4).run({"i": given | {"last": last_flags([5])}}, 9)


@pytest.mark.parametrize("classes", [0, 257])
def test_wrong_parameters_are_refused(classes):
    with pytest.raises(UserError, match=f"classes = {classes}"):
        SoftmaxSpec(classes=classes)
