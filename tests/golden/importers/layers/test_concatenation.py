"""Concatenations and grouped convolutions of users' models, compared with onnxruntime and PyTorch."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import deployed_module, folded
from fabtune.golden.importers.layers.network import imported, onnx_network
from fabtune.golden.models.text import network_from, text_of

from ....onnx_models import array, head, model_of, node, outputs_of, refusal

WEIGHTS = {"w": array(4, 2, 3, 3), "b": array(4), "u": array(5, 2, 1, 1)}
BOTH = [node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("Conv", "x u", "d")]
NORM = {"scale": array(9), "shift": array(9), "mean": array(9), "var": abs(array(9)) + 0.5}


def turned(name, perm):
    return node("Transpose", name, f"{name}_turned", perm=perm)


FILES = {
    "maps": ([*BOTH, node("Concat", "c d", "v", axis=1), *head(9 * 64)[0]], 9 * 64),
    "maps, axis from behind": ([*BOTH, node("Concat", "d c", "v", axis=-3), *head(9 * 64)[0]], 9 * 64),
    "a ReLU and a pool behind": (
        [
            *(*BOTH, node("Concat", "c d", "e", axis=1), node("Relu", "e", "r")),
            *(node("MaxPool", "r", "v", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), *head(9 * 16)[0]),
        ],
        9 * 16,
    ),
    "a batch norm behind": (
        [
            *(*BOTH, node("Concat", "c d", "e", axis=1), node("BatchNormalization", "e scale shift mean var", "n")),
            *(node("Relu", "n", "v"), *head(9 * 64)[0]),
        ],
        9 * 64,
    ),
    "a concatenation of a concatenation": (
        [*BOTH, node("Concat", "c d", "e", axis=1), node("Concat", "e x c", "v", axis=1), *head(15 * 64)[0]],
        15 * 64,
    ),
    "vectors": (
        [
            *(*BOTH, node("Flatten", "c", "f"), node("GlobalAveragePool", "d", "g"), node("Flatten", "g", "h")),
            *(node("Concat", "f h", "v", axis=-1), *head(4 * 64 + 5)[0]),
        ],
        4 * 64 + 5,
    ),
    "channels last": (
        [
            *(*BOTH, turned("c", [0, 2, 3, 1]), turned("d", [0, 2, 3, 1])),
            *(node("Concat", "c_turned d_turned", "e", axis=3), node("Relu", "e", "v"), *head(9 * 64)[0]),
        ],
        9 * 64,
    ),
    "groups": ([node("Conv", "x wg b", "v", group=2, strides=[2, 2]), *head(4 * 9)[0]], 4 * 9),
    "as many outputs a channel": ([node("Conv", "x wg b", "v", group=2), *head(4 * 36)[0]], 4 * 36),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file(name, tmp_path):
    nodes, features = FILES[name]
    constants = {**WEIGHTS, **NORM, "wg": array(4, 1, 3, 3), **head(features)[1]}
    used = {one for each in nodes for one in each.input}
    for number, each in enumerate(nodes):
        each.name = f"{each.op_type}_{number}"
    model = model_of(nodes, {key: one for key, one in constants.items() if key in used})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    network, module = onnx_network(tmp_path / "net.onnx")
    given = array(3, 2, 8, 8, scale=1)
    with torch.no_grad():
        found = module(torch.from_numpy(given)).numpy()
    np.testing.assert_allclose(found, outputs_of(model, given)[0], rtol=1e-5, atol=1e-5)
    assert [one.weight.shape for one in folded(network, module)] == [stage.weight_shape for stage in network.stages]


def refused(nodes, tmp_path, constants=()):
    model = model_of(nodes, {**WEIGHTS, **dict(constants)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    return refusal(tmp_path / "net.onnx")


def test_what_is_refused_of_files(tmp_path):
    nodes, constants = head(9 * 64)
    rows = refused([BOTH[0], node("Concat", "c c", "v", axis=2), *nodes], tmp_path, constants.items())
    assert "node 'my_Concat' (Concat): of (4, 8, 8), (4, 8, 8) along the axis 2 has hardware along the channels" in rows
    one = [*BOTH, node("Concat", "c d", "e", axis=1), node("Relu", "e", "r"), node("Concat", "r c", "v", axis=1)]
    wide, its = head(13 * 64)
    both = refused([*one, *wide], tmp_path, its.items())
    assert "(Concat)" in both
    assert "a stage gives only" in both
    order = [*BOTH, turned("c", [0, 2, 3, 1]), node("Flatten", "c_turned", "f"), node("Flatten", "d", "g")]
    mixed = refused([*order, node("Concat", "f g", "v", axis=1), *nodes], tmp_path, constants.items())
    assert "along the channels of maps only" in mixed
    constant = refused([BOTH[0], node("Concat", "c u", "v", axis=1), *nodes], tmp_path, constants.items())
    assert "reads u, which is no output of a layer" in constant


class Fire(nn.Module):
    """Fire module of SqueezeNet."""

    def __init__(self, inputs, squeezed, outputs):
        super().__init__()
        self.squeeze, self.one = nn.Conv2d(inputs, squeezed, 1), nn.Conv2d(squeezed, outputs, 1)
        self.three = nn.Conv2d(squeezed, outputs, 3, padding=1)

    def forward(self, x):
        x = self.squeeze(x).relu()
        return torch.cat([self.one(x).relu(), self.three(x).relu()], 1)


class DenseLayer(nn.Module):
    """DenseNet layer: appends its outputs to all earlier outputs."""

    def __init__(self, inputs, growth):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv(self.norm(x).relu())], dim=1)


class Joined(nn.Module):
    def __init__(self, function, features, layers=()):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(2, 6, 1)
        self.layers, self.function, self.head = nn.ModuleList(layers), function, nn.Linear(features, 3)

    def forward(self, x):
        return self.head(self.function(self, self.first(x), self.second(x)).flatten(1))


MODULES = {
    "SqueezeNet": nn.Sequential(
        *(nn.Conv2d(2, 6, 3, 2), nn.ReLU(), nn.MaxPool2d(2, 1), Fire(6, 3, 4), Fire(8, 4, 6), nn.MaxPool2d(2)),
        *(nn.Dropout(), nn.Conv2d(12, 5, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3)),
    ),
    "DenseNet": nn.Sequential(
        *(nn.Conv2d(2, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(DenseLayer(6, 4), DenseLayer(10, 4), nn.BatchNorm2d(14), nn.ReLU(), nn.Conv2d(14, 7, 1, bias=False)),
        *(nn.AvgPool2d(3), DenseLayer(7, 4), nn.BatchNorm2d(11), nn.ReLU(), nn.Flatten(), nn.Linear(11, 3)),
    ),
    "ResNeXt": Joined(
        lambda own, x, y: own.layers[0](torch.cat([x, y, x], 1)) + own.layers[1](y),
        8 * 64,
        (nn.Conv2d(14, 8, 3, padding=1, groups=2), nn.Conv2d(6, 8, 1, groups=2)),
    ),
    "of vectors": Joined(lambda own, x, y: torch.cat([y.flatten(1), x.mean((2, 3))], -1), 6 * 64 + 4),
    "an activation behind": Joined(lambda own, x, y: functional.leaky_relu(torch.concat([x, y], -3), 0.1), 640),
    "a pool behind": Joined(
        lambda own, x, y: own.layers[0](functional.max_pool2d(torch.cat([y, x], 1).relu_(), 3, 2, 1)),
        5 * 16,
        [nn.Conv2d(10, 5, 1)],
    ),
    "one tensor": Joined(lambda own, x, y: torch.cat([x], 1) + own.layers[0](y), 256, [nn.Conv2d(6, 4, 1)]),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module(name):
    torch.manual_seed(0)
    module = MODULES[name].eval()
    network, own = imported(module, (2, 8, 8), name)
    x = torch.randn(4, 2, 8, 8)
    with torch.no_grad():
        expected = module(x)
        torch.testing.assert_close(own(x), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(deployed_module(network, own)(x), expected, rtol=1e-4, atol=1e-5)
    assert network_from(text_of(network)).stages == network.stages


def test_gradients_are_those_of_pytorch():
    module = MODULES["ResNeXt"]
    _, own = imported(module, (2, 8, 8), "m.py:build")
    x = torch.randn(4, 2, 8, 8)
    for one in (module, own):
        functional.cross_entropy(one(x), torch.tensor([0, 1, 2, 0])).backward()
    theirs = dict(module.named_parameters())
    assert own.tensor_names
    for mine, name in own.tensor_names.items():
        torch.testing.assert_close(own.get_parameter(mine).grad, theirs[name].grad, rtol=1e-4, atol=1e-6)


def test_what_is_refused_of_modules():
    def reason(function, features=640):
        with pytest.raises(UserError) as error:
            imported(Joined(function, features).eval(), (2, 8, 8), "m.py:build")
        return str(error.value)

    assert "aten.cat of (4, 8, 8), (4, 8, 8) along the axis 2 has hardware along" in reason(
        lambda own, x, y: torch.cat([x, x], 2), 512
    )
    permuted = reason(lambda own, x, y: torch.cat([x.permute(0, 2, 3, 1).flatten(1), y.flatten(1)], 1))
    assert "aten.cat of (256,), (384,) along the axis 1 has hardware along the channels of maps only" in permuted
    alone = reason(lambda own, x, y: torch.cat([x, torch.cat([x, y], 1).relu()], 1), 896)
    assert "a stage gives only those behind its residual, activation and pool" in alone
