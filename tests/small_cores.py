"""Small cores shared by many tests, so that each is generated and compiled once."""

import itertools
import operator

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
"""All optional features of `instantft`."""
ONE_STAGE = {"network": "16 fc4", "lanes": 16, "columns": 2}
"""Settings of the smallest cores, for tests that mostly read generated files."""
ADAPTERS = ONE_STAGE | {"rank": 2, "batch": 4, "cache_entries": 64, "ports": 3}
"""As `ONE_STAGE` for `instantft`, with the maximal number of ports."""
DEEP = {"network": NETWORK, "lanes": 16, "columns": 2, "cut_rows": 4096}
"""Settings of another `zotrain`, whose cut memory is UltraRAM where available."""
SMALLER = {
    "adapter": "inputs=37 classes=2 batch=2 lanes=16 columns=2 rank=1",
    "fc": "inputs=33 outputs=5 columns=2 activation=none",
    "conv": "channels=3 height=5 width=6 padding=0 outputs=5 pool=1 activation=none columns=2 lanes=16",
    # more sums than words
    "depthwise": "channels=16 height=3 width=3 kernel=2,1 padding=0 activation=none columns=2 lanes=16",
    "gaussian_array": "n=1 form=sum",
    "nf4_dequant": "lanes=3 scales=5 tag=7",
    "context_scale": "lanes=3 queries=2 keys=4 tag=5",
    "mac": "lanes=16 columns=1 terms=16",
    "weight_path": "lanes=8 scales=2",
    "activation_function": "lanes=3 tag=5",
    "requantize": "lanes=3 tag=5",
    "elementwise": "lanes=3 tag=5",
    "tensor_sequencer": "lanes=8 columns=32 numbers=5 tables=2",
    "tile_stream": "lanes=16 columns=4 depth=16 burst=4 correction_depth=4",
    "tile_dequant": "lanes=16 columns=4",
    "tile_weights": "lanes=8 columns=4 numbers=5",
    "tile_array": "lanes=16 columns=4 tag=5",
    "partial_sums": "columns=2 sums=4 drain=1",
    "word_offsets": "generator.scale.urng.bits=4 generator.scale.urng.n=6",
    "layer_norm": "lanes=4 features=23 tag=3",
    "attention_softmax": "columns=2 lanes=2 exponentials=1 queries=2 keys=4",
    "stationary_load": "lanes=8 columns=2",
    "attention_sequencer": "lanes=8 columns=4 queries=2 keys=8 rows=512 wide_rows=2 sums=16",
    "activation_memory": "lanes=8 columns=2 rows=300 wide_rows=200 key_tag=0",
    "sample_loader": "lanes=16 columns=16 rows=500 wide_rows=200 sums=16",
    "array_path": "lanes=8 columns=4 sums=8 queries=4",
    "axi_read": "burst=4 depth=8",
    "axi_write": "burst=4 depth=8 outstanding=4",
    "linear_sequencer": "sums=4",
    "norm_path": "lanes=16 columns=4 rows=1024 wide_rows=256 sums=32 norm_lanes=4 features=40",
    "program_sequencer": "operations=24 lanes=16 columns=4",
    "value_path": "lanes=8 columns=4 rows=256 wide_rows=128 features=32 sums=16",
    "pool_head": "lanes=8 columns=4 rows=64 wide_rows=128 sums=16",
    "rotary": "lanes=8 columns=4 rows=512 wide_rows=128 sums=16 width=32",
}
"""Smaller settings for blocks with large defaults, shared by benches, Verilog readers and `emit`."""


def task(spec, **settings):
    """A user's task for a core: random weights, few samples in the core's format."""
    rng, network = np.random.default_rng(5), spec.described

    def samples(count):
        shape = (count, *network.input_shape)
        inputs = rng.integers(0, 256, shape).astype(np.uint8) if spec.byte_inputs else rng.normal(0, 1, shape)
        return Samples(inputs, rng.integers(0, network.classes, count))

    frozen = random_parameters(network, rng)
    return ExampleTask("npz:own.npz", "own", frozen, samples(10), samples(13), **settings)


def words(settings):
    """Settings as arguments of `build`."""
    return [f"{name}={value}" for name, value in settings.items()]


def options(settings):
    """Settings as command-line options."""
    return [word for setting in words(settings) for word in ("--set", setting)]


def instantft(**settings):
    return InstantftSpec(**({"network": NETWORK, "lanes": 16, "batch": 4, "cache_entries": 64} | settings))


def zotrain(**settings):
    """Spec of a `zotrain`, optionally with a cut network."""
    return ZotrainSpec(**({"network": NETWORK, "lanes": 16, "cut_rows": 72} | settings))


def zostream(**settings):
    """Spec of the smallest `zostream` that runs the networks of its stress tests."""
    sizes = {"lanes": 8, "columns": 4, "rows": 512, "wide_rows": 512, "sums": 32, "norm_lanes": 4}
    return ZostreamSpec(**(sizes | {"features": 64, "operations": 32, "classes": 4} | settings))


def single_axis(*axes):
    """Parameter combinations, each axis with its base first; combinations off base in two axes are slow tests."""
    axes = [[*axis] for axis in axes]
    bases = [axis[0] for axis in axes]
    return [
        pytest.param(*one, marks=pytest.mark.slow) if sum(map(operator.ne, one, bases)) > 1 else one
        for one in itertools.product(*axes)
    ]


def with_slow(names, slow=("zostream",)):
    """Test parameters, some marked slow: by default the largest core, which compiles for minutes."""
    return [pytest.param(one, marks=pytest.mark.slow) if one in slow else one for one in names]
