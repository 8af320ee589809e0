"""The gradient computed by hand, and after the table softmax."""

import numpy as np

from fabtune.golden.block import last_flags
from fabtune.golden.nn.celoss import CelossSpec
from fabtune.golden.nn.softmax import SoftmaxTables


def gradients(probabilities, lengths, labels):
    given = {"probability": np.array(probabilities)[:, None], "last": last_flags(lengths)}
    inputs = {"i": given, "label": {"label": np.array(labels)[:, None]}}
    result = CelossSpec().run(inputs, len(probabilities))["o"]
    assert np.array_equal(result["last"], given["last"])
    return result["gradient"][:, 0].tolist()


def test_one_is_taken_at_the_label():
    assert gradients([1000, 3096, 4096, 0, 4096], [2, 1, 2], [1, 0, 0]) == [1000, -1000, 0, -4096, 4096]


def test_a_label_beyond_the_sample_takes_nothing():
    assert gradients([1, 2, 3], [2, 1], [2, 0]) == [1, 2, 3 - 4096]


def test_far_below_any_probability_it_wraps():
    assert gradients([-32768, -28672], [1, 1], [0, 0]) == [28672, -32768]


def test_it_is_the_tables_gradient():
    rng = np.random.default_rng(0)
    logits, labels = rng.integers(-(1 << 18), 1 << 18, (40, 10)), rng.integers(0, 10, 40)
    probabilities = SoftmaxTables().probabilities(logits).reshape(-1)
    found = gradients(probabilities, [10] * 40, labels)
    assert found == SoftmaxTables().gradient(logits, labels).reshape(-1).tolist()
