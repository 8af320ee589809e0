"""Small cores that many tests share, so that each is generated and compiled once."""

import numpy as np
import pytest

from fabtune.boards.example.task import ExampleTask
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.datasets.dataset import Samples
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters

NETWORK = "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"
OPTIONS = {
    "cache": "none",
    "rates": True,
    "tunes": "layer",
    "stochastic": True,
    "early_stop": True,
    "validation": True,
}
"""All that `instantft` has by choice."""


def task(spec, **settings):
    """Make a task of a user's for a core: random weights, few samples as the core reads them."""
    rng, network = np.random.default_rng(5), spec.described

    def samples(count):
        shape = (count, *network.input_shape)
        inputs = rng.integers(0, 256, shape).astype(np.uint8) if spec.byte_inputs else rng.normal(0, 1, shape)
        return Samples(inputs, rng.integers(0, network.classes, count))

    frozen = random_parameters(network, rng)
    return ExampleTask("npz:own.npz", "own", frozen, samples(10), samples(13), **settings)


def instantft(**settings):
    """Build the specification of an `instantft`."""
    return InstantftSpec(**({"network": NETWORK, "lanes": 16, "batch": 4, "cache_entries": 64} | settings))


def zotrain(**settings):
    """Build the specification of a `zotrain`, whose network may be cut."""
    return ZotrainSpec(**({"network": NETWORK, "lanes": 16, "cut_rows": 72} | settings))


def zostream(**settings):
    """Build the specification of a `zostream`, the smallest that runs the networks of its trials."""
    sizes = {"lanes": 8, "columns": 4, "rows": 512, "wide_rows": 512, "sums": 32, "norm_lanes": 4}
    return ZostreamSpec(**(sizes | {"features": 64, "operations": 32, "classes": 4} | settings))


def with_slow(names):
    """List the cores of a test that compiles them: the largest one compiles for minutes, and is for the slow tests."""
    return [pytest.param(one, marks=pytest.mark.slow) if one == "zostream" else one for one in names]
