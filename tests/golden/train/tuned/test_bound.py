"""Bound of the logits for large inputs of activations whose slope or limit golden rounds."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fabtune.golden.datasets.dataset import Samples
from fabtune.golden.fixed import Q4_12, Q8_16, Narrower
from fabtune.golden.models.activations import Nonlinearity
from fabtune.golden.models.batch_norm import StageParameters
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.arithmetic.forward import StageIntegers, run
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.train.tuned.bound import logit_bound
from fabtune.golden.train.tuned.network import TunedNetwork


def errors(activation, inputs):
    """Differences of PyTorch's logits from golden's, (n, 1), for inputs of the activation, and their bound.

    The first layer multiplies samples by 7, the second passes them.
    """
    network = network_from(f"1 fc1 {activation} fc1")
    tuned = TunedNetwork.of(network, module_of(network).eval())
    parameters = [StageParameters(np.full((1, 1), weight), np.zeros(1)) for weight in (7.0, 1.0)]
    tuned = replace(tuned, parameters=tuple(parameters), base=tuple(parameters), integers=True)
    values = (np.asarray(inputs)[:, None] / 7).astype(np.float32)
    integers = [StageIntegers(*map(Q4_12.from_float, (one.weight, one.bias))) for one in parameters]
    golden = run(network.stages, integers, Q8_16.from_float(values), product_of("blas"), Narrower())[-1]
    with torch.no_grad():
        floats = tuned.module()(torch.from_numpy(values)).double().numpy()
    return np.abs(floats - Q8_16.to_float(golden)), logit_bound(tuned, Samples(values, np.zeros(len(values), np.int64)))


LARGE = np.linspace(-127.9, 127.9, 801)
ACTIVATIONS = ("leaky0.1", "leaky0.01", "leaky0.3to6", "relu0.3", "relu6", "relu100.00001", "hswish")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_logits_are_within_the_bound(activation):
    off, bound = errors(activation, LARGE)
    assert (off <= bound).all()
    assert bound.max() < 2.0**-9


def test_without_the_error_of_a_slope_the_bound_is_too_small(monkeypatch):
    monkeypatch.setattr("fabtune.golden.models.activations.Relu.constants_error", Nonlinearity.constants_error)
    off, bound = errors("leaky0.1", LARGE)
    assert (off > 4 * bound).any()
