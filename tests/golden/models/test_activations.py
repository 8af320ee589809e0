"""Activations: text, integers against PyTorch, what neighbours become, and what has no hardware."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.fixed import Q8_16
from fabtune.golden.models.activations import ACTIVATIONS, ActivationError, HardSwish, Relu, activation_from

ONE = 1 << Q8_16.fraction
NEAR = np.concatenate([np.arange(-4 * ONE, 4 * ONE), Q8_16.from_float([-128, -127.9, 5.5, 127.9, 128])])
"""Values of Q8.16 on each piece of a hard-swish, and at the ends."""


@pytest.mark.parametrize("word", ["relu", "relu6", "relu1.25", "leaky0.01", "leaky1e-05to1.5", "hswish"])
def test_text_returns(word):
    assert activation_from(word).word == word


@pytest.mark.parametrize("word", ["", "Relu", "relu-1", "relu6x", "leaky", "leaky0.1to", "hswish6", "hswish "])
def test_other_words_are_no_activations(word):
    assert activation_from(word) is None


def test_examples_in_messages_are_activations():
    words = [word for kind in ACTIVATIONS for word in kind.words.split(", ")]
    assert all(activation_from(word).word == word for word in words)


@pytest.mark.parametrize("word", ["relu", "relu1.5", "leaky0.25", "leaky0.01", "leaky0.1to2", "hswish"])
def test_integers_are_within_their_roundings_of_floats(word):
    activation = activation_from(word)
    found = activation.integers(NEAR)
    expected = activation.floats(torch.from_numpy(NEAR / ONE)).numpy() * ONE
    slope = abs(getattr(activation, "slope", 0) * ONE - activation.constant) / ONE
    assert (np.abs(found - expected) <= activation.roundings / 2 + slope * np.abs(NEAR) + 1e-9).all()
    assert found.max() <= Q8_16.maximum
    assert found.min() >= Q8_16.minimum


def test_a_hard_swish_rounds_its_gate_and_its_product_to_even():
    found = HardSwish().integers(NEAR)
    gates = [round(min(max(x + 3 * ONE, 0), 6 * ONE) / 6) for x in NEAR.tolist()]
    assert found.tolist() == [round(x * gate / ONE) for x, gate in zip(NEAR.tolist(), gates, strict=True)]
    assert np.array_equal(found[NEAR >= 3 * ONE], NEAR[NEAR >= 3 * ONE])
    assert not found[NEAR <= -3 * ONE].any()


def test_errors_of_a_hard_swish_grow_by_at_most_its_steepest_slope():
    x = torch.linspace(-5, 5, 100_001, dtype=torch.float64)
    slopes = functional.hardswish(x).diff() / x.diff()
    assert 1.499 < slopes.abs().max() <= HardSwish.steepest


@pytest.mark.parametrize("pair", [(HardSwish(), Relu()), (Relu(), HardSwish()), (HardSwish(), HardSwish())], ids=str)
def test_no_other_activation_does_the_work_of_a_hard_swish(pair):
    with pytest.raises(ActivationError, match="behind another activation has no hardware"):
        pair[1].behind(pair[0])
