"""Parameters and samples of a mapped network, shared by tests of zeroth-order jobs."""

import numpy as np
import pytest

from fabtune.golden.fixed import q8_16_of_bytes
from fabtune.golden.models.text import NETWORKS, network_from
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters


@pytest.fixture(scope="session")
def parameters():
    """Function that draws frozen parameters of a mapping's network, by preset name or description."""

    def make(mapping):
        name = mapping.forward.name
        network = NETWORKS[name] if name in NETWORKS else network_from(name)
        return random_parameters(network, np.random.default_rng(0))

    return make


@pytest.fixture(scope="session")
def samples():
    """Function that draws Q8.16 samples and their labels."""

    def make(mapping, count):
        rng = np.random.default_rng([0, 1])
        inputs = q8_16_of_bytes(rng.integers(0, 256, (count, *mapping.forward.input_shape)))
        return inputs, rng.integers(0, mapping.forward.network_stages[-1].biases, count)

    return make
