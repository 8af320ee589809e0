"""Forward engine without adapters or host: outputs of a network, sample by sample."""

import numpy as np
import pytest

from fabtune.golden.fixed import Narrower, q8_16_of_bytes
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import Convolution, Flatten, Linear, MaxPool
from fabtune.golden.models.network import Network
from fabtune.golden.nn.arithmetic.forward import StageIntegers, run
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.array.images import frozen_image, samples_image
from fabtune.golden.nn.array.mapping import Mapping

from .inference import infer

NETWORK = Network(
    "own", (1, 7, 6), (Convolution(3, 2, 1), Relu(), MaxPool(2), Convolution(5, 2), Relu(), Flatten(), Linear(3))
)
SETTINGS = {"lanes": 16, "columns": 2}


def parameters(mapping, rng):
    """Random weights and biases of all stages."""
    return [
        StageIntegers(rng.integers(-9000, 9000, stage.weight_shape), rng.integers(-9000, 9000, stage.biases))
        for stage in mapping.network_stages
    ]


def outputs(mapping, frozen, samples):
    """Golden outputs of each stage, flattened."""
    found = run(mapping.network_stages, frozen, samples, product_of("int64"), Narrower())
    return [one.reshape(-1).tolist() for one in found]


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_outputs_of_every_stage(stall):
    mapping = Mapping.of(NETWORK, **SETTINGS)
    rng = np.random.default_rng(1)
    frozen, samples = parameters(mapping, rng), rng.integers(0, 256, (3, *NETWORK.input_shape))
    expected = outputs(mapping, frozen, q8_16_of_bytes(samples))
    assert infer(mapping, frozen_image(mapping, frozen), samples_image(mapping, samples), stall)[0] == expected


def test_a_vector_in_words():
    mapping = Mapping.of(Network("fc", (21,), (Linear(9), Relu(), Linear(4))), **SETTINGS, byte_inputs=False)
    rng = np.random.default_rng(3)
    frozen, samples = parameters(mapping, rng), rng.integers(-60000, 60000, (3, 21))
    expected = outputs(mapping, frozen, samples)
    assert infer(mapping, frozen_image(mapping, frozen), samples_image(mapping, samples))[0] == expected


def test_no_sample_starts_on_hold():
    mapping = Mapping.of(NETWORK, **SETTINGS)
    rng = np.random.default_rng(6)
    frozen, samples = parameters(mapping, rng), rng.integers(0, 256, (2, *NETWORK.input_shape))
    expected = outputs(mapping, frozen, q8_16_of_bytes(samples))
    found, started, _ = infer(mapping, frozen_image(mapping, frozen), samples_image(mapping, samples), hold=2000)
    assert (found, started) == (expected, 2001)
