"""Import of arbitrary modules: result compared with PyTorch, and refusals that name the user's line."""

import importlib.util
import math
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import deployed_module, folded
from fabtune.golden.importers.layers.network import imported, network_of
from fabtune.golden.models.activations import HardSwish, Relu
from fabtune.golden.models.layers import (
    Add,
    AveragePool,
    BatchNorm,
    Convolution,
    Depthwise,
    Flatten,
    Linear,
    MaxPool,
)

MODEL = '''"""A model of somebody."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding="same")
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.conv2(y)
        y += self.shortcut(x)
        return F.relu_(y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(2)
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 6, 2))
        self.depth = nn.Conv2d(6, 6, 3, groups=6)
        self.kernel = nn.Parameter(torch.randn(5, 6) / 4)
        self.drop = nn.Dropout(0.5)
        self.after = nn.BatchNorm1d(5)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        x = F.relu6(self.stem(self.norm(x)))
        x = self.blocks(x)
        x = F.relu(self.depth(x)).mean(dim=(2, 3))
        x = F.relu(F.linear(self.drop(x), self.kernel))
        return self.head(self.after(x))


def build():
    return Net()
'''


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Import a user's file of this text, called model.py in messages."""

    def make(text):
        monkeypatch.chdir(tmp_path)
        path = tmp_path / "model.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("model_of_a_user", path)
        found = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "model_of_a_user", found)
        spec.loader.exec_module(found)
        return found

    return make


def spread(module, seed=0):
    """Atypical statistics and scales."""
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.running_mean.normal_(generator=generator)
            layer.running_var.uniform_(0.2, 3, generator=generator)
            if layer.affine:
                nn.init.normal_(layer.weight, generator=generator)
                nn.init.normal_(layer.bias, generator=generator)
    return module.eval()


def assert_same(module, shape, *, name="m.py:build"):
    """Compare the import with the module, with folded and unfolded batch norm; returns the description."""
    network, own = imported(module, shape, name)
    x = torch.randn((7, *shape), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = module(x)
        torch.testing.assert_close(own(x), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(deployed_module(network, module)(x), expected, rtol=1e-4, atol=1e-4)
    return network


def test_a_module_of_residual_blocks(model):
    torch.manual_seed(0)
    module = spread(model(MODEL).build())
    network = assert_same(module, (2, 8, 8))
    _, own = imported(module, (2, 8, 8), "m.py:build")
    assert network.layers == (
        *(Depthwise(1), Convolution(4, 3, 1), Relu(6)),
        *(Convolution(4, 3, 1), BatchNorm(), Relu(), Convolution(4, 3, 1), Add(), Relu()),
        *(Convolution(6, 3, 1, 2), BatchNorm(), Relu(), Convolution(6, 3, 1), Convolution(6, 1, 0, 2), Add(), Relu()),
        *(Depthwise(3), Relu(), AveragePool(2), Flatten(), Linear(5), Relu(), Depthwise(1), Linear(3)),
    )
    assert [stage.source for stage in network.stages] == [(at,) for at in (-1, 0, 1, 2, 3, 4, 3, 6, 7, 8, 9)]
    assert [stage.residual for stage in network.stages] == [None, None, None, (1,), None, None, (5,), *[None] * 4]
    assert own.titles[:6] == ["norm", "stem", "relu6" if "relu6" in own.titles else own.titles[2], *own.titles[3:6]]
    assert own.titles[3:5] == ["blocks.0.conv1", "blocks.0.bn1"]
    names = own.tensor_names
    assert (names["1.weight"], names["9.weight"], names["20.weight"]) == (
        "stem.weight",
        "blocks.1.conv1.weight",
        "kernel",
    )
    assert "0.weight" not in names
    state = module.state_dict()
    assert all(torch.equal(own.state_dict()[mine], state[theirs]) for mine, theirs in names.items())


def test_a_users_module_is_as_before(model):
    module = model(MODEL).build()
    module.train()
    module.blocks.eval()
    state = {name: one.clone() for name, one in module.state_dict().items()}
    before = torch.get_rng_state()
    imported(module, (2, 8, 8), "m.py:build")
    assert torch.equal(before, torch.get_rng_state())
    assert (module.training, module.head.training, module.blocks.training) == (True, True, False)
    assert all(torch.equal(one, state[name]) for name, one in module.state_dict().items())


# input 2 x 8 x 8
FORMS = {
    "view": (lambda x: x.view(x.size(0), -1), (Flatten(),)),
    "reshape": (lambda x: x.reshape(-1, 3 * 6 * 6), (Flatten(),)),
    "flatten twice": (lambda x: torch.flatten(x, 1).flatten(1), (Flatten(),)),
    "identities": (lambda x: x.contiguous().clone().detach().flatten(1), (Flatten(),)),
    "relu twice": (lambda x: functional.relu(functional.relu(x)).flatten(1), (Relu(), Relu(), Flatten())),
    "clamp": (lambda x: x.clamp(0, 4).flatten(1), (Relu(4), Flatten())),
    "clamp from below": (lambda x: x.clamp(min=0).flatten(1), (Relu(), Flatten())),
    "hardtanh": (lambda x: functional.hardtanh(x, 0, 2.5).flatten(1), (Relu(2.5), Flatten())),
    "in place": (lambda x: functional.relu6(x, inplace=True).flatten(1), (Relu(6), Flatten())),
    "hard-swish": (lambda x: functional.hardswish(x).flatten(1), (HardSwish(), Flatten())),
    "hard-swish in place": (lambda x: functional.hardswish(x, inplace=True).flatten(1), (HardSwish(), Flatten())),
    "max-pool": (lambda x: functional.max_pool2d(x, (2, 3)).flatten(1), (MaxPool((2, 3)), Flatten())),
    "overlapping": (lambda x: functional.max_pool2d(x, 3, 2).flatten(1), (MaxPool(3, 2), Flatten())),
    "beyond the map": (lambda x: functional.max_pool2d(x, 3, 2, 1).flatten(1), (MaxPool(3, 2, 1), Flatten())),
    "rounded up": (
        lambda x: functional.max_pool2d(x, (3, 4), (2, 3), (1, 2), ceil_mode=True).flatten(1),
        (MaxPool((3, 4), (2, 3), (1, 2, 2, 2)), Flatten()),
    ),
    "a pool of one": (lambda x: functional.max_pool2d(x, 1).flatten(1), (Flatten(),)),
    "average": (lambda x: functional.avg_pool2d(x, 2).flatten(1), (AveragePool(2), Flatten())),
    "adaptive": (lambda x: functional.adaptive_avg_pool2d(x, (3, 2)).flatten(1), (AveragePool((2, 3)), Flatten())),
    "global": (lambda x: functional.adaptive_avg_pool2d(x, 1).flatten(1), (AveragePool(6), Flatten())),
    "global, one stride": (lambda x: functional.avg_pool2d(x, 6, 1).flatten(1), (AveragePool(6), Flatten())),
    "mean": (lambda x: x.mean((-1, -2)), (AveragePool(6), Flatten())),
    "mean, squeezed": (lambda x: x.mean((2, 3), keepdim=True).squeeze(-1).squeeze(-1), (AveragePool(6), Flatten())),
}


class Form(nn.Module):
    """A convolution, a function, a linear layer."""

    def __init__(self, function, features=None):
        super().__init__()
        self.conv, self.function = nn.Conv2d(2, 3, 3), function
        shape = function(torch.zeros(2, 3, 6, 6)).shape
        self.head = nn.Linear(features or shape[1], 2)

    def forward(self, x):
        return self.head(self.function(self.conv(x)))


@pytest.mark.parametrize(("function", "layers"), FORMS.values(), ids=FORMS)
def test_a_form_of_a_layer(function, layers):
    torch.manual_seed(0)
    network = assert_same(Form(function), (2, 8, 8))
    found = [
        one
        for at, one in enumerate(network.layers)
        if not (isinstance(one, Flatten) and Flatten() in network.layers[:at])
    ]
    assert tuple(found) == (Convolution(3, 3), *layers, Linear(2))


CONVOLUTIONS = {
    "stride": (nn.Conv2d(2, 4, 3, stride=(2, 3)), Convolution(4, 3, 0, (2, 3))),
    "kernel": (nn.Conv2d(2, 4, (3, 5), bias=False), Convolution(4, (3, 5))),
    "padding": (nn.Conv2d(2, 4, 3, padding=(1, 2)), Convolution(4, 3, (1, 1, 2, 2))),
    "same of an even kernel": (nn.Conv2d(2, 4, (4, 2), padding="same"), Convolution(4, (4, 2), (1, 2, 0, 1))),
    "valid": (nn.Conv2d(2, 4, 1, padding="valid"), Convolution(4, 1)),
    "depthwise": (nn.Conv2d(2, 2, 3, 2, 1, groups=2), Depthwise(3, 1, 2)),
    "groups": (nn.Conv2d(2, 6, 3, 2, groups=2), Convolution(6, 3, 0, 2, 2)),
    "zeros around": (
        nn.Sequential(nn.ZeroPad2d((0, 1, 2, 3)), nn.Conv2d(2, 4, 3, padding=1)),
        Convolution(4, 3, (3, 4, 1, 2)),
    ),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("layer", "description"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_a_convolution(layer, description):
    head = nn.Linear(math.prod(layer(torch.zeros(1, 2, 8, 8)).shape), 2)
    network = assert_same(nn.Sequential(layer, nn.Flatten(), head), (2, 8, 8))
    assert network.layers[0] == description


# batch norms after a convolution with another reader, a ReLU, a pool, an add, a batch norm
class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(2, eps=10.0**-at) for at in range(1, 5))
        self.norms.append(nn.BatchNorm1d(32))
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        y = self.conv1(x)
        y = self.norms[0](self.conv2(self.norms[1](y))) + y
        y = self.norms[2](self.norms[3](functional.max_pool2d(functional.relu(y), 2)))
        return self.head(self.norms[4](y.flatten(1)))


def test_batch_norms_that_cannot_be_folded_are_layers():
    torch.manual_seed(1)
    network = assert_same(spread(Norms()), (2, 8, 8))
    assert network.layers == (
        *(Convolution(2, 3, 1), Depthwise(1), Convolution(2, 3, 1), BatchNorm(), Add(), Relu(), MaxPool(2)),
        *(Depthwise(1), BatchNorm(), Flatten(), Depthwise(1), Linear(3)),
    )


class OwnForward(nn.Sequential):
    def forward(self, x):
        return super().forward(x) * 2


def pruned():
    layer = nn.Conv2d(1, 4, 3)
    prune.l1_unstructured(layer, "weight", 0.5)
    return layer


HEAD = nn.Conv2d(1, 4, 3)
TAIL = (nn.Flatten(), nn.Linear(144, 2))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([HEAD, nn.Sigmoid()], "m.py:build, layer 1: aten.sigmoid has no hardware; supported: convolution, linear"),
        ([nn.Sequential(HEAD, nn.Softmax(1))], "m.py:build, layer 0.1: aten.softmax of (4, 6, 6) over the axis 1"),
        ([OwnForward(HEAD)], "aten.mul has no hardware"),
        ([nn.LazyLinear(3)], "m.py:build: 0.weight has no shape yet: run the module once"),
        ([nn.Linear(2, 2, device="meta")], "m.py:build: 0.weight has no values"),
        ([nn.Conv2d(1, 4, 3).half(), *TAIL], "m.py:build: 0.weight is float16: convert the module with .float() first"),
        ([nn.Conv2d(1, 4, 3, dilation=2)], "m.py:build, layer 0: aten.conv2d has a dilation of [2, 2], not 1"),
        (
            [nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect")],
            "layer 0: aten.pad pads with reflect, not with",
        ),
        ([nn.ConvTranspose2d(1, 4, 3)], "m.py:build, layer 0: aten.conv_transpose2d has no hardware"),
        ([pruned()], "m.py:build, layer 0: aten.mul computes with 0.weight_mask, 0.weight_orig alone: store"),
        ([parametrizations.weight_norm(nn.Conv2d(1, 4, 3))], "aten._weight_norm computes with 0.parametrizations."),
        (
            [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)],
            "layer 1: batch norm has no running statistics",
        ),
        ([nn.Conv2d(1, 4, 3), nn.MaxPool2d(2, dilation=2)], "has a dilation of [2, 2], not 1"),
        (
            [nn.Conv2d(1, 4, 2), nn.AvgPool2d(2, ceil_mode=True), nn.Flatten(), nn.Linear(64, 2)],
            "layer 1: aten.avg_pool2d has ceil_mode",
        ),
        ([nn.Conv2d(1, 4, 3), nn.AvgPool2d(2, padding=1)], "layer 1: aten.avg_pool2d has a padding of (1, 1, 1, 1)"),
        ([nn.Conv2d(1, 4, 3), nn.AvgPool2d(3, 2), nn.Flatten(), nn.Linear(16, 2)], "has a stride of (2, 2), not that"),
        ([nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 2)], "has windows of several sizes"),
        ([nn.Conv2d(1, 4, 3), nn.LeakyReLU(-0.1), *TAIL], "1: a slope is 0 or 2**-16 to less than 1, not -0.1"),
        ([nn.Conv2d(1, 4, 3), nn.LeakyReLU(1.5), *TAIL], "1: a slope is 0 or 2**-16 to less than 1, not 1.5"),
        ([nn.Conv2d(1, 4, 3), nn.LeakyReLU(), nn.LeakyReLU(), *TAIL], "2: a leaky ReLU behind another one"),
        (
            [nn.Conv2d(1, 4, 3), nn.MaxPool2d(3, 1, 1), nn.Hardswish(), *TAIL],
            "2: a hard-swish behind a max-pool has no hardware; one before it has",
        ),
        ([nn.Conv2d(1, 4, 3), nn.Hardswish(), nn.ReLU(), *TAIL], "2: a ReLU behind another activation has no hardware"),
        ([nn.Conv2d(1, 4, 3), nn.Hardtanh(), *TAIL], "layer 1: aten.hardtanh clips from -1.0 to 1.0, not from 0"),
        (
            [nn.Conv2d(1, 4, 3), nn.Flatten(2), nn.Linear(36, 2)],
            "layer 2: aten.linear has an input of (4, 36): flatten it first",
        ),
        ([nn.Conv2d(1, 4, 3), nn.Flatten(0)], "from (4, 6, 6) to 288 does not keep each sample for itself"),
        ([nn.Conv2d(3, 4, 3), *TAIL], "m.py:build, layer 0: fails on samples of 1 x 8 x 8: Given groups=1"),
        ([nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 2)], "m.py:build, layer 3: fails on"),
        (
            [nn.Conv2d(1, 4, 3), nn.BatchNorm1d(4), *TAIL],
            "m.py:build, layer 1: fails on samples of 1 x 8 x 8: expected",
        ),
        ([nn.Conv2d(1, 4, 3), nn.Linear(6, 2)], "layer 1: aten.linear has an input of (4, 6, 6): flatten it first"),
        ([nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 2), nn.ReLU()], "m.py:build must end in a linear layer"),
        ([nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)], "m.py:build, layer 0: 0: a ReLU must follow a layer with"),
        (
            [nn.Conv2d(1, 4, 3, padding=-1), *TAIL],
            "m.py:build, layer 0: fails on samples of 1 x 8 x 8: negative padding",
        ),
        ([nn.Identity()], "m.py:build must end in a linear layer"),
        ([], "m.py:build must end in a linear layer"),
    ],
)
def test_what_has_no_hardware_is_refused_by_name(layers, message):
    with pytest.raises(UserError) as mistake:
        network_of(nn.Sequential(*layers), (1, 8, 8), "m.py:build")
    assert message in str(mistake.value)
    assert "\n" not in str(mistake.value)


FORWARD = """import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
        self.head = nn.Linear(64, 2)
        self.register_buffer("ones", torch.ones(2))

    def forward(self, x):
        return RESULT
"""
LINE = FORWARD[: FORWARD.index("RESULT")].count("\n") + 1


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("self.head(self.conv(self.conv(x)).flatten(1))", "conv.weight is shared with model.py:{line}"),
        (
            "self.head(F.conv2d(self.conv(x), self.conv.weight, padding=1).flatten(1))",
            "conv.weight is shared with model.py:{line}",
        ),
        (
            "self.head(x.flatten(1)) if x.sum() > 0 else self.head(x.flatten(1))",
            "cannot be exported, as it decides",
        ),
        ("self.head(x[x > -1].view(-1, 64))", ""),
        ("self.head((self.conv(x) + x.mean((2, 3), keepdim=True)).flatten(1))", "aten.add adds (1, 1, 1) to (1, 8, 8)"),
        ("self.head((self.conv(x) + x[:, :, :1]).flatten(1))", "aten.slice has no hardware"),
        ("self.head((self.conv(x) + 1).flatten(1))", "aten.add of a constant, 1, has no hardware"),
        ("self.head((self.conv(x) * 2).flatten(1))", "aten.mul has no hardware"),
        ("self.head(torch.add(self.conv(x), x, alpha=2).flatten(1))", "aten.add has a factor of 2"),
        ("self.head((F.relu(self.conv(x)) + x).flatten(1))", "behind its ReLU: a residual is added before"),
        ("self.head(x.flatten(1)) + self.ones", "aten.add adds ones to what has a bias already"),
        (
            "self.head(F.conv2d(x, self.conv.weight * 2, padding=1).flatten(1))",
            "computes with conv.weight alone: store",
        ),
        ("self.head(self.conv(x).view(1, -1)[:, :64])", "aten.view from (1, 8, 8) to 1 x 128 does not keep each"),
        (
            "self.head(F.dropout(self.conv(x).flatten(1)))",
            "is active in evaluation mode: give it training=self.training",
        ),
        ("self.head(F.batch_norm(self.conv(x), None, None, training=True).flatten(1))", "has no running statistics"),
        (
            "self.head(self.conv(F.relu(x).mT).flatten(1))",
            "reads (1, 8, 8), which is another view of (1, 8, 8)",
        ),
        ("self.head(self.conv(x).flatten(1).half().float())", "has no hardware"),
        (
            "self.head(torch.cat([self.conv(x), x], 2)[:, :, ::2].flatten(1))",
            "aten.cat of (1, 8, 8), (1, 8, 8) along the axis 2 has",
        ),
        ("self.head(self.conv(x).max(1, keepdim=True)[0].flatten(1))", "aten.max has no hardware"),
        ("self.head(F.max_pool2d(self.conv(x), 1, return_indices=True)[1].float().flatten(1))", "no hardware"),
        ("self.head(F.pad(x, (0, 1, 0, 0)).flatten(1)[:, 8:])", "aten.pad has hardware before a convolution only"),
        ("self.head(self.conv(F.pad(x, (-1, 1, 0, 0))).flatten(1))", "aten.pad has a negative padding, [-1, 1, 0, 0]"),
        ("self.head(self.conv(F.pad(x, (1, -1), value=0.5)).flatten(1))", "aten.pad pads with 0.5, not with zeros"),
        ("self.missing(x)", "fails on samples of 1 x 8 x 8: 'Model' object has no attribute 'missing'"),
    ],
)
def test_a_module_of_another_form_is_refused_at_its_line(model, result, message):
    module = model(FORWARD.replace("RESULT", result)).Model()
    with pytest.raises(UserError) as mistake:
        network_of(module, (1, 8, 8), "model.py:build")
    assert str(mistake.value).startswith(f"model.py:{LINE}: ")
    assert message.format(line=LINE) in str(mistake.value)
    assert "\n" not in str(mistake.value)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("(self.head(x.flatten(1)), x)", "model.py:build gives 2 outputs: a network here has one, the logits"),
        ('{"logits": self.head(x.flatten(1))}', "model.py:build gives 1 outputs by name"),
        ("self.head(self.conv(x).flatten(1)).tolist()", "model.py:build gives 2 outputs"),
        ("3", "model.py:build gives a int"),
        ("self.head(x.flatten(1)).flatten(0)", "from (2,) to 4 does not keep each sample for itself"),
        ("x.add_(1).flatten(1)", ""),
    ],
)
def test_outputs_that_are_not_logits_are_refused(model, result, message):
    module = model(FORWARD.replace("RESULT", result)).Model()
    with pytest.raises(UserError) as mistake:
        network_of(module, (1, 8, 8), "model.py:build")
    assert message in str(mistake.value)
    assert "\n" not in str(mistake.value)


class Inputs(nn.Module):
    def forward(self, x, y, scale=1):
        return x + y


def test_two_inputs_are_refused():
    with pytest.raises(UserError, match=r"m\.py:build takes 2 inputs \(x, y\): a network here has one"):
        network_of(Inputs(), (3,), "m.py:build")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(value):
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    nn.init.constant_(module[2].bias, value)
    with pytest.raises(UserError, match=r"m\.py:build: 2\.bias has NaN or infinity"):
        network_of(module, (3,), "m.py:build")


def test_an_unknown_operator_is_refused_at_the_users_line(model):
    text = MODEL.replace("x = self.blocks(x)", "x = torch.sigmoid(self.blocks(x))")
    line = text[: text.index("torch.sigmoid")].count("\n") + 1
    with pytest.raises(UserError) as mistake:
        network_of(model(text).build(), (2, 8, 8), "model.py:build")
    expected = f"model.py:{line}: aten.sigmoid has no hardware; supported: "
    assert str(mistake.value).startswith(expected)
    assert str(mistake.value).endswith("(x = torch.sigmoid(self.blocks(x)))")


def test_parameters_are_folded_anew_after_training(model):
    module = spread(model(MODEL).build())
    network = network_of(module, (2, 8, 8), "m.py:build")
    before = folded(network, module)
    with torch.no_grad():
        module.kernel.add_(1)
    after = folded(network, module)
    changed = [not np.array_equal(one.weight, other.weight) for one, other in zip(before, after, strict=True)]
    assert changed == [stage.weight_shape == (5, 6) for stage in network.stages]


def test_a_sample_beyond_the_limit_is_refused_before_it_is_made():
    with pytest.raises(UserError, match="a sample has 2 x 1073741824 x 1073741824 = 2305843009213693952 values, more"):
        imported(nn.Linear(3, 2), (2, 1 << 30, 1 << 30), "m.py:build")
