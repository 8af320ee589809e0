"""Frozen tensors in NF4 and in 18 bits: errors, and values outside the formats."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.frozen_base import Nf4Weights, frozen_base

from ...own_transformers import encoder


def test_matrices_are_nf4_or_18_bits_and_the_rest_is_the_same():
    network, parameters = encoder()
    fine, coarse = frozen_base(network, parameters, "18-bit"), frozen_base(network, parameters)
    assert fine.errors.keys() == coarse.errors.keys() == {name for name in parameters if name[1] == "weight"}
    for name, values in parameters.items():
        if name[1] != "weight":
            assert (fine.integers[name] == coarse.integers[name]).all()
            continue
        own = Nf4Weights.of(values, fine.transformer.format_of(name))
        assert (coarse.integers[name] == own.dequantised()).all()
        assert coarse.errors[name] == pytest.approx(own.error(values))
        assert fine.errors[name] < 1e-3 < 0.05 < coarse.errors[name] < 0.15


def test_a_matrix_that_may_not_be_nf4():
    network, parameters = encoder()
    head = (network.titles.index("head"), "weight")
    own = frozen_base(network, parameters, coarse=lambda name: name != head)
    assert own.errors[head] < 1e-3 < min(error for name, error in own.errors.items() if name != head)


def test_clipped_biases_are_counted():
    network, parameters = encoder()
    head = (network.titles.index("head"), "bias")
    own = frozen_base(network, {**parameters, head: np.array([200.0, 1, 2, -300, 0])})
    assert own.clipped == {head: 2}


@pytest.mark.parametrize("base", ["nf4", "18-bit"])
def test_an_outlier_that_no_format_holds(base):
    network, parameters = encoder()
    name = (network.titles.index("0.up"), "weight")
    weights = parameters[name].copy()
    weights[3, 5] = -3e5
    with pytest.raises(UserError, match=r"0\.up has a weight of 3e\+05, and 18 bits hold at most 131071"):
        frozen_base(network, {**parameters, name: weights}, base)


def test_another_base():
    with pytest.raises(UserError, match="base = 'int8' is not one of nf4, 18-bit"):
        frozen_base(*encoder(), "int8")
