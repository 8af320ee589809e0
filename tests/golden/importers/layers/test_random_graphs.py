"""Random modules of known and unknown operators: within an error bound of PyTorch, or refused."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.importers.layers.network import imported
from fabtune.golden.models.layers import AveragePool, Convolution, Depthwise
from fabtune.golden.nn.arithmetic.forward import run, side_by_side
from fabtune.golden.nn.arithmetic.products import PRODUCTS
from fabtune.golden.train.conversion import Converter

UNKNOWN = {
    "sigmoid": torch.sigmoid,
    "twice": lambda x: 2 * x,
    "exponential": lambda x: functional.elu(x),
    "turned": lambda x: x.flip(-1),
    "largest": lambda x: x - x.amax(1, keepdim=True),
    "mixed": lambda x: x.transpose(1, 2).reshape(x.shape) if x.shape[2] > 1 else x.sin(),
}
SHAPES = {
    "conv": {"kernel": (1, 3), "stride": (1, 2), "bias": (True, False)},
    "depthwise": {"kernel": (1, 3), "stride": (1, 2)},
}


MAP, ROW = (2, 8, 8), (2, 16)
HEADS = ("linear", "linear", "last", "product", "means", "parts")


class RandomModule(nn.Module):
    """Steps on any earlier map or vector, then a linear layer of the last result."""

    def __init__(self, steps, seed, shape=MAP, head="linear"):
        super().__init__()
        torch.manual_seed(seed)
        self.steps, self.layers, self.kind = steps, nn.ModuleList(), head
        x, seen = torch.zeros(2, *shape), []
        self.row = len(shape) == 2
        conv, norm = (nn.Conv1d, nn.BatchNorm1d) if self.row else (nn.Conv2d, nn.BatchNorm2d)
        for kind, back, kernel, stride, bias in steps:
            layer = nn.Identity()
            if kind in ("conv", "groups", "depthwise"):
                groups = {"conv": 1, "groups": 2 - x.shape[1] % 2}.get(kind, x.shape[1])
                channels = {"conv": 3, "groups": 4}.get(kind, x.shape[1])
                layer = conv(x.shape[1], channels, kernel, stride, kernel // 2, groups=groups, bias=bias)
            elif kind == "norm":
                layer = norm(x.shape[1])
            elif kind == "bias":
                layer.bias = nn.Parameter(torch.randn(x.shape[1], *[1] * (len(shape) - 1)) / 4)
            self.layers.append(layer.eval())
            x = self.step(kind, layer, x, seen, back)
        self.head = nn.Linear(self.features(x).shape[1], 3)
        for one in self.modules():
            if isinstance(one, norm):
                one.running_mean.normal_(0, 0.2)
                one.running_var.uniform_(0.5, 2)
                nn.init.uniform_(one.weight, -1, 1)
                nn.init.normal_(one.bias, 0, 0.2)

    def step(self, kind, layer, x, seen, back):
        seen.append(x)
        largest, average = (
            (functional.max_pool1d, functional.avg_pool1d)
            if self.row
            else (functional.max_pool2d, functional.avg_pool2d)
        )
        if kind in UNKNOWN:
            return UNKNOWN[kind](x)
        if kind == "add":
            same = [one for one in seen[:-1] if one.shape == x.shape]
            return x + same[back % len(same)] if same else x
        if kind == "relu":
            return functional.relu(x, inplace=bool(back % 2)) if back < 3 else functional.relu6(x)
        if kind == "leaky":
            return functional.leaky_relu(x, 0.01 + back / 8)
        if kind == "swish":
            return functional.hardswish(x, inplace=bool(back % 2))
        if kind == "pool" and x.shape[-1] >= 2:
            return largest(x, 2, 1 + back % 2)
        if kind == "padded" and x.shape[-1] >= 2:
            return largest(x, 3, 1 + back % 2, 1, ceil_mode=back > 1)
        if kind == "average" and x.shape[-1] >= 2:
            return average(x, 2 if back % 2 else x.shape[-1])
        if kind == "bias":
            return x + layer.bias
        if kind == "join":
            same = [one for one in seen if one.shape[2:] == x.shape[2:]]
            return torch.cat([same[back % len(same)], x] if back % 2 else [x, same[back % len(same)]], 1)
        if kind == "swapped":
            return functional.relu(x.movedim(1, -1)).movedim(-1, 1) if back else x.transpose(1, -1).transpose(-1, 1)
        if kind == "viewed":
            return x.flatten(1).clone().view(-1, *x.shape[1:]) if back % 2 else x.flatten(2).unflatten(2, x.shape[2:])
        return layer(functional.dropout(x, 0.5, training=False))

    def features(self, x):
        if self.kind == "means":
            return x.mean(-1) if self.row else x.mean(3).mean(2)
        if self.kind == "parts":
            return x.mean(2).flatten(1)
        return (x.movedim(1, -1) if self.kind == "last" else x).flatten(1)

    def forward(self, x):
        x, seen = x.clone(), []
        for (kind, back, *_), layer in zip(self.steps, self.layers, strict=True):
            x = self.step(kind, layer, x, seen, back)
        x = self.features(x)
        return torch.addmm(self.head.bias, x, self.head.weight.t()) if self.kind == "product" else self.head(x)


LAYERS = (
    *("conv", "conv", "groups", "depthwise", "norm", "relu", "relu", "leaky", "add", "pool", "padded", "average"),
    *("dropout", "bias", "bias", "swapped", "swish", "viewed", "join"),
)
KINDS = st.one_of(*[st.sampled_from(LAYERS)] * 7, st.sampled_from(sorted(UNKNOWN)))
STEP = st.tuples(KINDS, st.integers(0, 3), st.sampled_from([1, 3]), st.sampled_from([1, 1, 2]), st.booleans())
# usually begins with a convolution
GRAPHS = st.tuples(st.just(("conv", 0, 3, 1, True)), st.lists(STEP, min_size=1, max_size=8)).map(
    lambda pair: (pair[0], *pair[1])
)


def bound(network, parameters, integers, inputs):
    """Error bound of the golden logits: each rounding, times the weights after it; and the float logits.

    Weights and biases are off by at most 2**-13, samples, sums and averages by 2**-17. ReLU and max-pool add no error;
    a leaky ReLU rounds once more, with its slope off by at most 2**-17, and a hard-swish enlarges errors.
    """
    half_weight, half_value = 2.0**-13, 2.0**-17
    values, errors = [inputs], [np.full_like(inputs, half_value)]
    for stage, own, quantised in zip(network.stages, parameters, integers, strict=True):
        weight = torch.from_numpy(np.abs(quantised.weight) * 2.0**-12)
        x, error = (torch.from_numpy(side_by_side(one, stage.source)) for one in (values, errors))
        spread = torch.full_like(weight, half_weight)
        found = apply(stage, x, torch.from_numpy(own.weight), torch.from_numpy(own.bias))
        off = apply(stage, error, weight, torch.zeros(stage.biases)) + apply(
            stage, x.abs(), spread, torch.full((stage.biases,), half_weight)
        )
        if stage.residual is not None:
            found += torch.from_numpy(side_by_side(values, stage.residual)).reshape(found.shape)
            off += torch.from_numpy(side_by_side(errors, stage.residual)).reshape(off.shape)
        off += half_value
        if stage.activation:
            off = stage.activation.steepest * off + stage.activation.roundings * half_value
            off += bool(stage.activation.constant) * found.abs() * half_value
            found = stage.activation.floats(found)
        if stage.pool:
            average = isinstance(stage.pool, AveragePool)
            pool = functional.avg_pool2d if average else functional.max_pool2d
            top, bottom, left, right = stage.pool.padding
            if any(stage.pool.padding):
                found = functional.pad(found, (left, right, top, bottom), value=-np.inf)
                off = functional.pad(off, (left, right, top, bottom))
            found = pool(found, stage.pool.size, stage.pool.stride)
            off = functional.max_pool2d(off, stage.pool.size, stage.pool.stride) + half_value * average
        values.append(found.numpy())
        errors.append(off.numpy())
    return values[-1], errors[-1]


def apply(stage, x, weight, bias):
    bias = bias.double()
    if not isinstance(stage.layer, Convolution | Depthwise):
        return functional.linear(x.flatten(1), weight, bias)
    if len(stage.computed_shape) == 1:
        return functional.conv2d(x.flatten(1)[..., None, None], weight, bias, groups=stage.biases).flatten(1)
    top, bottom, left, right = stage.layer.padding
    groups = stage.channels if isinstance(stage.layer, Depthwise) else stage.layer.groups
    return functional.conv2d(
        functional.pad(x, (left, right, top, bottom)), weight, bias, stage.layer.stride, groups=groups
    )


def check(steps, seed, shape=MAP, head="linear"):
    """True if the module was imported, False if refused."""
    module = RandomModule(steps, seed, shape, head).eval()
    inputs = np.random.default_rng(seed).uniform(-1, 1, (3, *shape))
    with torch.no_grad():
        expected = module.double()(torch.from_numpy(inputs)).numpy()
    try:
        network, own = imported(module, shape, "random")
    except UserError:
        return False
    inputs = inputs.reshape(3, *network.input_shape)
    used = {kind for kind, *_ in steps}
    assert not used & set(UNKNOWN), "an operator was dropped"
    parameters = folded(network, own.double())
    converter, narrow = Converter(), Narrower()
    integers = converter.stages(parameters)
    found = run(network.stages, integers, Q8_16.from_float(inputs), PRODUCTS["int64"], narrow)[-1]
    floats, error = bound(network, parameters, integers, inputs)
    np.testing.assert_allclose(floats, expected, rtol=1e-6, atol=1e-6)
    if not converter.clipped and not narrow.saturations:
        assert (np.abs(found * 2.0**-16 - expected) <= error + 1e-6).all()
    return True


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(GRAPHS, st.integers(0, 1000), st.sampled_from([MAP, ROW]), st.sampled_from(HEADS))
def test_random_modules(steps, seed, shape, head):
    check(steps, seed, shape, head)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(GRAPHS, st.integers(0, 1000), st.sampled_from([MAP, ROW]), st.sampled_from(HEADS))
def test_many_random_modules(steps, seed, shape, head):
    check(steps, seed, shape, head)


def steps_of(text):
    """Steps from words: kind, earlier map, kernel, stride, bias."""
    parts = (word.split("-") for word in text.split())
    return tuple((kind, *map(int, numbers), True) for kind, *numbers in parts)


KNOWN = (
    "conv-0-3-1 relu-0-1-1 conv-0-3-1 norm-0-1-1 add-1-1-1",
    "norm-0-1-1 conv-0-3-2 relu-3-1-1 average-0-1-1",
    "conv-0-1-1 depthwise-0-3-2 relu-1-1-1 norm-0-1-1 pool-0-1-1",
    "conv-0-3-1 padded-3-1-1 conv-0-3-2 padded-0-1-1",
    "conv-0-3-1 leaky-1-1-1 conv-0-3-1 leaky-0-1-1 average-1-1-1",
    "conv-0-3-1 swish-1-1-1 padded-3-1-1 conv-0-3-1 swish-0-1-1 average-1-1-1",
)


@pytest.mark.parametrize("steps", [*map(steps_of, KNOWN)], ids=KNOWN)
def test_modules_that_are_imported(steps):
    """Not vacuous: all of these are compared."""
    assert check(steps, 5)


@pytest.mark.parametrize("head", sorted(set(HEADS)))
def test_modules_of_one_dimension_that_are_imported(head):
    steps = "conv-0-3-1 relu-0-1-1 swapped-1-1-1 depthwise-0-3-1 norm-0-1-1 viewed-1-1-1"
    assert check(steps_of(steps), 5, ROW, head)


def test_a_sum_that_something_else_reads_is_refused():
    steps = [list(step) for step in steps_of("conv-0-3-1 bias-0-1-1 conv-0-3-1 add-0-1-1")]
    steps[0][4] = False
    assert not check(steps, 5)
    assert check(steps[:-1], 5)


@pytest.mark.parametrize("kind", UNKNOWN)
def test_modules_that_are_refused(kind):
    assert not check(steps_of(f"conv-0-3-1 {kind}-0-1-1"), 5)
