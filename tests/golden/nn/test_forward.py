"""Integer stages compared with PyTorch in float64, which is exact for their sums."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.fixed import Q8_16, Narrower, narrow
from fabtune.golden.models.network import Convolution, Flatten, Linear, MaxPool, Network, Relu
from fabtune.golden.nn.forward import PRODUCT_FRACTION, StageIntegers, forward
from fabtune.golden.nn.products import PRODUCTS

NETWORK = Network(
    "n",
    (2, 9, 7),
    (Convolution(3, 3, 1), MaxPool(2), Relu(), Convolution(4, 2), Flatten(), Linear(5), Relu(), Linear(3)),
)


def stages(seed=0, largest=1 << 15):
    rng = np.random.default_rng(seed)
    for stage in NETWORK.stages:
        own = StageIntegers(
            rng.integers(-largest, largest, stage.weight_shape), rng.integers(-largest, largest, stage.biases)
        )
        yield stage, own, rng.integers(-(1 << 20), 1 << 20, (6, *stage.input_shape))


def exact(stage, own, inputs):
    x, w, b = (torch.tensor(one, dtype=torch.float64) for one in (inputs, own.weight, own.bias << 16))
    if isinstance(stage.layer, Convolution):
        sums = functional.conv2d(x, w, b, padding=stage.layer.padding)
    else:
        sums = functional.linear(x.flatten(1), w, b)
    result = torch.from_numpy(narrow(sums.numpy().astype(np.int64), PRODUCT_FRACTION, Q8_16)).double()
    if stage.pool > 1:
        result = functional.max_pool2d(result, stage.pool)
    return (result.relu() if stage.relu else result).numpy().astype(np.int64)


@pytest.mark.parametrize("products", PRODUCTS)
def test_every_stage_is_exact(products):
    for stage, own, inputs in stages():
        found = forward(stage, own, inputs, PRODUCTS[products], Narrower())
        assert found.shape == (6, *stage.output_shape)
        assert np.array_equal(found, exact(stage, own, inputs))


def test_clipped_values_are_counted():
    stage, own, inputs = next(stages())
    counter = Narrower()
    forward(stage, own, inputs, PRODUCTS["blas"], counter)
    unclipped = functional.conv2d(
        torch.tensor(inputs).double(),
        torch.tensor(own.weight).double(),
        torch.tensor(own.bias << 16).double(),
        padding=1,
    )
    # rows and columns outside all windows of the max-pool are not computed
    height, width = (side * stage.pool for side in stage.output_shape[1:])
    rounded = torch.round(unclipped[:, :, :height, :width] / 2**12)
    beyond = int(((rounded > Q8_16.maximum) | (rounded < Q8_16.minimum)).sum())
    assert counter.saturations == beyond > 0
