"""Integer stages compared with PyTorch in float64, exact for the sums, then rounded with PyTorch and Fraction."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import (
    Add,
    AveragePool,
    Convolution,
    Depthwise,
    Flatten,
    Linear,
    MaxPool,
)
from fabtune.golden.models.network import Network
from fabtune.golden.models.stages import stages_of
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.arithmetic.forward import StageIntegers, forward, run
from fabtune.golden.nn.arithmetic.products import PRODUCTS

NETWORK = Network(
    "n",
    (2, 9, 7),
    (Convolution(3, 3, 1), MaxPool(2), Relu(), Convolution(4, 2), Flatten(), Linear(5), Relu(), Linear(3)),
)

# differences from a 3 x 3 convolution with 4 channels, of maps 2 x 9 x 7
VARIATIONS = {
    "kernel of one": (Convolution(4, 1),),
    "wide kernel": (Convolution(4, (2, 5)),),
    "tall kernel": (Convolution(4, (5, 2)),),
    "same padding": (Convolution(4, 3, 1),),
    "padding on one side": (Convolution(4, 3, (0, 1, 0, 1)),),
    "padding of each side": (Convolution(4, 3, (3, 0, 1, 2)),),
    "stride": (Convolution(4, 3, stride=2),),
    "stride of rows": (Convolution(4, 3, stride=(3, 1)),),
    "stride, padding, pool": (Convolution(4, 3, (0, 1, 0, 1), 2), MaxPool(2)),
    "groups": (Convolution(6, 3, 1, 2, groups=2), Relu()),
    "groups of a channel": (Convolution(4, (2, 3), 1, groups=2), MaxPool(2)),
    "depthwise": (Depthwise(3),),
    "depthwise of everything": (Depthwise((3, 2), (1, 0, 2, 1), (2, 3)), Relu()),
    "scale": (Depthwise(1),),
    "scale of a vector": (Flatten(), Depthwise(1), Relu()),
    "ReLU6": (Convolution(4, 3), Relu(6)),
    "limit between two numbers": (Convolution(4, 3), Relu(1.3)),
    "limit beyond the format": (Convolution(4, 3), Relu(1000)),
    "wide max-pool": (Convolution(4, 3), MaxPool((2, 3))),
    "overlapping max-pool": (Convolution(4, 3), Relu(), MaxPool(3, 2)),
    "overlapping rows": (Convolution(4, 3), MaxPool((3, 2), (1, 2))),
    "average pool": (Convolution(4, 3), Relu(), AveragePool(2)),
    "average of an odd count": (Convolution(4, 3), AveragePool((1, 3))),
    "global average": (Convolution(4, 3), Relu(), AveragePool((7, 5))),
    "global average of negative values": (Convolution(4, 3), AveragePool((7, 5))),
}


def parameters_of(stage, rng, largest=1 << 15):
    shapes = stage.weight_shape, (stage.biases,)
    return StageIntegers(*(rng.integers(-largest, largest, shape) for shape in shapes))


def stages(seed=0):
    rng = np.random.default_rng(seed)
    for stage in NETWORK.stages:
        own = parameters_of(stage, rng)
        yield stage, own, rng.integers(-(1 << 20), 1 << 20, (6, *stage.input_shape))


def exact(stage, own, inputs, residual=None):
    x, w, b = (torch.tensor(one, dtype=torch.float64) for one in (inputs, own.weight, own.bias << 16))
    if isinstance(stage.layer, Linear):
        sums = functional.linear(x.flatten(1), w, b)
    elif len(stage.computed_shape) == 1:
        sums = x.flatten(1) * w.flatten() + b
    else:
        top, bottom, left, right = stage.layer.padding
        groups = stage.channels if isinstance(stage.layer, Depthwise) else stage.layer.groups
        padded = functional.pad(x, (left, right, top, bottom))
        sums = functional.conv2d(padded, w, b, stage.layer.stride, groups=groups)
    if residual is not None:
        sums = sums + torch.tensor(residual, dtype=torch.float64).reshape(sums.shape) * 2**12
    result = (sums / 2**12).round().clamp(-(2**23), 2**23 - 1)
    if stage.activation:
        limit = 2**23 if stage.activation.limit is None else round(stage.activation.limit * 2**16)
        result = result.clamp(0, min(limit, 2**23 - 1))
    if isinstance(stage.pool, MaxPool):
        result = functional.max_pool2d(result, stage.pool.size, stage.pool.stride)
    elif stage.pool:
        count = stage.pool.size[0] * stage.pool.size[1]
        sums = functional.avg_pool2d(result, stage.pool.size, divisor_override=1)
        result = sums.apply_(lambda one: round(Fraction(int(one), count)))
    return result.numpy().astype(np.int64)


@pytest.mark.parametrize("products", PRODUCTS)
def test_every_stage_is_exact(products):
    for stage, own, inputs in stages():
        found = forward(stage, own, inputs, PRODUCTS[products], Narrower())
        assert found.shape == (6, *stage.output_shape)
        assert np.array_equal(found, exact(stage, own, inputs))


@pytest.mark.parametrize("layers", VARIATIONS.values(), ids=VARIATIONS)
@pytest.mark.parametrize("products", ["blas", "int64"])
def test_every_kind_of_layer_is_exact(layers, products):
    (stage,) = stages_of("one", (2, 9, 7), layers)
    rng = np.random.default_rng(1)
    own, inputs = parameters_of(stage, rng, 1 << 13), rng.integers(-(1 << 19), 1 << 19, (5, 2, 9, 7))
    found = forward(stage, own, inputs, PRODUCTS[products], Narrower())
    assert found.shape == (5, *stage.output_shape)
    assert np.array_equal(found, exact(stage, own, inputs))


GRAPH = Network(
    "residuals",
    (3, 8, 6),
    (
        *(Convolution(4, 3, 1), Relu(6)),
        *(Convolution(4, 3, 1), Relu(), Convolution(4, 3, 1), Add(), Relu()),
        *(Convolution(5, 3, 1, 2), Relu(), Convolution(5, 3, 1), Convolution(5, 1, 0, 2), Add(), Relu()),
        *(AveragePool((4, 3)), Flatten(), Linear(5), Add(), Linear(3)),
    ),
    (
        *((-1,), (0,)),
        *((1,), (2,), (3,), (4, 1), (5,)),
        *((6,), (7,), (8,), (6,), (9, 10), (11,)),
        *((12,), (13,), (14,), (15, 14), (16,)),
    ),
)


def test_a_graph_runs_as_its_stages_do():
    assert [(stage.source, stage.residual) for stage in GRAPH.stages] == [
        *(((-1,), None), ((0,), None), ((1,), (0,)), ((2,), None), ((3,), None), ((2,), (4,)), ((5,), (5,))),
        ((6,), None),
    ]
    check_graph(GRAPH)


def test_concatenations_are_those_of_pytorch():
    text = (
        "3x6x4 conv4k3p1 relu conv5k3p1 relu cat@3,1,-1 conv12k1g2 add@5,4 relu pool2 flatten@1 flatten@8 cat@9,10 "
        "fc5 cat@11,12 fc3"
    )
    network = network_from(text)
    assert [stage.source for stage in network.stages] == [(-1,), (0,), (1, 0, -1), (0, 2), (0, 2, 3)]
    assert [stage.residual for stage in network.stages] == [None, None, (1, 0, -1), None, None]
    assert [stage.input_shape for stage in network.stages[2:]] == [(12, 6, 4), (168,), (173,)]
    check_graph(network)


def check_graph(graph):
    """Compare golden outputs of all stages with PyTorch's exact functions."""
    rng = np.random.default_rng(2)
    parameters = [parameters_of(stage, rng, 1 << 12) for stage in graph.stages]
    inputs = rng.integers(-(1 << 18), 1 << 18, (4, *graph.input_shape))
    seen = [torch.from_numpy(inputs)]
    for stage, own in zip(graph.stages, parameters, strict=True):
        source, added = ([seen[number + 1] for number in one] for one in (stage.source, stage.residual or ()))
        if len({one.shape[2:] for one in source}) > 1:
            source = [one.flatten(1) for one in source]
        residual = torch.cat(added, 1).numpy() if added else None
        seen.append(torch.from_numpy(exact(stage, own, torch.cat(source, 1).numpy(), residual)))
    found = run(graph.stages, parameters, inputs, PRODUCTS["blas"], Narrower())
    for one, expected in zip(found, seen[1:], strict=True):
        assert one.any()
        assert np.array_equal(one, expected.numpy())


def test_a_residual_is_added_before_the_rounding():
    layers, sources = (Linear(1), Linear(1), Add()), ((-1,), (0,), (1, 0))
    stage = stages_of("sum", (1,), layers, sources)[1]
    # half a last place of the product plus one of the residual: 1.5, to even 2
    own = StageIntegers(np.array([[1]]), np.array([0]))
    found = forward(stage, own, np.array([[1 << 11]]), PRODUCTS["int64"], Narrower(), np.array([[1]]))
    assert found.tolist() == [[2]]


def test_a_residual_counts_where_the_sum_saturates():
    layers, sources = (Linear(1), Linear(1), Add()), ((-1,), (0,), (1, 0))
    stage = stages_of("sum", (1,), layers, sources)[1]
    own, counter = StageIntegers(np.array([[1 << 12]]), np.array([0])), Narrower()
    inputs = np.array([[Q8_16.maximum], [Q8_16.maximum], [Q8_16.minimum]])
    found = forward(stage, own, inputs, PRODUCTS["int64"], counter, np.array([[1], [-1], [-1]]))
    assert found.tolist() == [[Q8_16.maximum], [Q8_16.maximum - 1], [Q8_16.minimum]]
    assert counter.saturations == 2


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
    # values outside all max-pool windows are not computed
    height, width = (side * 2 for side in stage.output_shape[1:])
    rounded = torch.round(unclipped[:, :, :height, :width] / 2**12)
    beyond = int(((rounded > Q8_16.maximum) | (rounded < Q8_16.minimum)).sum())
    assert counter.saturations == beyond > 0
