"""The table softmax against SciPy, and its edges."""

import numpy as np
import pytest
from scipy.special import softmax

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16
from fabtune.golden.nn.softmax import EDGES, Softmax, SoftmaxSpec
from fabtune.golden.packets import last_flags, packets_of


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("spread", [0.1, 3.0, 20.0])
def test_is_softmax_within_half_a_percent_and_a_rounding(classes, spread):
    rng = np.random.default_rng(classes)
    logits = Q8_16.from_float(rng.normal(0, spread, (400, classes)))
    found = Q4_12.to_float(Softmax().probabilities(logits))
    exact = softmax(Q8_16.to_float(logits), axis=1)
    # half a step of the distance, 2**-8, and half a step of the reciprocal, 2**-11, at most
    assert np.abs(found - exact).max() <= 2**-13 + exact.max() * 0.006
    assert np.abs(found - exact).mean() < 2**-11


def test_certainty_is_exactly_one_and_zero():
    logits = np.array([[Q8_16.maximum, Q8_16.minimum, 0], [0, 16 << 16, 0]])
    assert Softmax().probabilities(logits).tolist() == [[4096, 0, 0], [0, 4096, 0]]


def test_equal_logits_share():
    assert Softmax().probabilities(np.zeros((1, 4), np.int64)).tolist() == [[1024] * 4]
    assert Softmax().probabilities(np.full((1, 2), -5)).tolist() == [[2048] * 2]


def test_only_distances_count():
    rng = np.random.default_rng(0)
    logits = Q8_16.from_float(rng.normal(0, 2, (50, 10)))
    assert np.array_equal(Softmax().probabilities(logits), Softmax().probabilities(logits - 12345))


def test_gradient_takes_one_from_the_label():
    logits = Q8_16.from_float(np.array([[1.0, 2.0], [0.5, -0.5]]))
    expected = Softmax().probabilities(logits) - np.array([[0, 4096], [4096, 0]])
    assert np.array_equal(Softmax().gradient(logits, np.array([1, 0])), expected)


def test_tables_fit_their_memories():
    tables = Softmax()
    assert len(tables.exponentials) == 2048
    assert tables.exponentials.max() == 1 << 17
    assert tables.exponentials[-1] == 0
    assert len(tables.reciprocals) == 1024
    assert tables.reciprocals[0] == 1 << 16
    assert np.all(np.diff(tables.exponentials) <= 0)
    assert np.all(np.diff(tables.reciprocals) < 0)


def test_the_block_is_the_model_sample_by_sample():
    rng = np.random.default_rng(0)
    inputs = SoftmaxSpec().stimulus(rng, 500)
    result = SoftmaxSpec().run(inputs, 500)["o"]
    assert np.array_equal(result["last"], inputs["i"]["last"])
    for start, end in packets_of(inputs["i"]["last"]):
        exact = Softmax().probabilities(inputs["i"]["logit"][start:end].T)[0]
        assert np.array_equal(result["probability"][start:end, 0], exact)


def test_the_edges_are_what_they_are_for():
    tables = Softmax()
    saturating, up, down, half = ([int(tables.exponentials[step]) for step in steps] for steps in EDGES)
    assert (1 << 18) - 64 <= sum(saturating) < 1 << 18
    for terms, halves, rounded in ((up, 3, 2), (down, 1, 0)):
        # a sum this close to 1 has a reciprocal of 1
        assert sum(terms) - (1 << 17) < 64
        assert terms[1] == halves << 4
        logits = -np.array([[0, int(np.flatnonzero(tables.exponentials == terms[1])[0])]]) << 9
        assert tables.probabilities(logits)[0].tolist() == [4096, rounded]
    assert sum(half) == (1 << 17) + 64


def test_a_sample_that_has_not_ended_gives_nothing_and_a_longer_one_is_refused():
    given = {"logit": np.zeros((5, 1), np.int64), "last": np.array([[0], [1], [0], [0], [0]])}
    assert SoftmaxSpec().run({"i": given}, 9)["o"]["probability"][:, 0].tolist() == [2048, 2048]
    with pytest.raises(UserError, match="a sample of 5 logits; this softmax takes 4"):
        SoftmaxSpec(classes=4).run({"i": given | {"last": last_flags([5])}}, 9)


@pytest.mark.parametrize("classes", [0, 257])
def test_wrong_parameters_are_refused(classes):
    with pytest.raises(UserError, match=f"classes = {classes}"):
        SoftmaxSpec(classes=classes)
