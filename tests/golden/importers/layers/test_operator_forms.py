"""Different spellings of layers: equal to PyTorch or refused; exported under their own names."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.importers.layers.network import imported
from fabtune.golden.importers.layers.own_tensors import own_state, returned, stage_tensors
from fabtune.golden.models.text import text_of

from ....own_modules import drawn


class Written(nn.Module):
    """A forward function with given tensors and layers."""

    def __init__(self, forward, parts):
        super().__init__()
        self.written = forward
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, torch.Tensor) else part)

    def forward(self, x):
        return self.written(self, x)


def normal(*shape):
    return torch.randn(shape) / 2


def minus(x, sides):
    return functional.pad(x, sides, value=-torch.inf)


def conv(outputs=4, **settings):
    return nn.Conv2d(2, outputs, 3, **settings)


def row(inputs=3, outputs=4, size=3, **settings):
    return nn.Conv1d(inputs, outputs, size, **settings)


HEAD = 4 * 6 * 6
MAP, ROW = (2, 8, 8), (3, 16)
# forward function, members of the module, sample shape, description
FORMS = {
    "a clip above all values": (
        lambda m, x: m.h(m.c(x).clamp(0, 1e6).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(HEAD, 3)},
        *(MAP, "2x8x8 conv4k3 relu flatten fc3"),
    ),
    "a max-pool behind pads of -inf": (
        lambda m, x: m.h(functional.max_pool2d(minus(minus(m.c(x), (0, 1, 1, 0)), (1, 1)), 4, 3, 1).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(4 * 2 * 3, 3)},
        *(MAP, "2x8x8 conv4k3 pool4p2,1,2,3s3 flatten fc3"),
    ),
    "a max-pool of a row behind a pad of -inf, rounded up": (
        lambda m, x: m.h(functional.max_pool1d(minus(m.c(x), (1, 0)), 4, 3, 1, 1, True).flatten(1)),
        lambda: {"c": row(), "h": nn.Linear(4 * 6, 3)},
        *(ROW, "3x1x16 conv4k1x3 pool1x4p0,0,2,3s1x3 flatten fc3"),
    ),
    "clip, and slices of whole axes": (
        lambda m, x: m.h(torch.clip(m.c(x[:]), 0, 4)[:, :, :].flatten(1)[:]),
        lambda: {"c": conv(), "h": nn.Linear(HEAD, 3)},
        *(MAP, "2x8x8 conv4k3 relu4 flatten fc3"),
    ),
    "a norm of features, channels last": (
        lambda m, x: m.h(m.b(m.c(x).permute(0, 2, 3, 1).flatten(1)).relu()),
        lambda: {"c": conv(), "b": nn.BatchNorm1d(HEAD), "h": nn.Linear(HEAD, 3)},
        *(MAP, "2x8x8 conv4k3 flatten dw1 relu fc3"),
    ),
    "a depthwise convolution of a vector": (
        lambda m, x: m.h(m.d(m.c(x).flatten(1)[:, :, None, None]).flatten(1)),
        lambda: {"c": conv(), "d": nn.Conv2d(HEAD, HEAD, 1, groups=HEAD), "h": nn.Linear(HEAD, 3)},
        *(MAP, "2x8x8 conv4k3 flatten dw1 fc3"),
    ),
    "threshold": (
        lambda m, x: m.h(functional.threshold(m.c(x), 0, 0).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(HEAD, 3)},
        *(MAP, "2x8x8 conv4k3 relu flatten fc3"),
    ),
    "a mean of flattened maps": (
        lambda m, x: m.h(m.c(x).flatten(2).mean(-1)),
        lambda: {"c": conv(), "h": nn.Linear(4, 3)},
        *(MAP, "2x8x8 conv4k3 avg6 flatten fc3"),
    ),
    "a mean of each axis": (
        lambda m, x: m.h(m.c(x).mean(3).mean(2)),
        lambda: {"c": conv(), "h": nn.Linear(4, 3)},
        *(MAP, "2x8x8 conv4k3 avg6 flatten fc3"),
    ),
    "a mean of the height": (
        lambda m, x: m.h(m.c(x).mean(2).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(24, 3)},
        *(MAP, "2x8x8 conv4k3 avg6x1 flatten fc3"),
    ),
    "the largest of each map": (
        lambda m, x: m.h(nn.AdaptiveMaxPool2d(1)(functional.max_pool2d(m.c(x), 2)).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(4, 3)},
        *(MAP, "2x8x8 conv4k3 pool6 flatten fc3"),
    ),
    "products with parameters": (
        lambda m, x: torch.addmm(m.d, torch.relu(x @ m.w + m.b), m.v),
        lambda: {"w": normal(10, 6), "b": normal(1, 6), "v": normal(6, 3), "d": normal(3)},
        *((10,), "10 fc6 relu fc3"),
    ),
    "a matrix that is transposed": (
        lambda m, x: functional.linear(torch.relu(x @ m.w.t()), m.v.T) + m.d,
        lambda: {"w": normal(6, 10), "v": normal(6, 3), "d": normal(3)},
        *((10,), "10 fc6 relu fc3"),
    ),
    "a bias of a convolution": (
        lambda m, x: m.h((functional.conv2d(x, m.w) + m.b.view(1, -1, 1, 1)).relu().flatten(1)),
        lambda: {"w": normal(4, 2, 3, 3), "b": normal(4), "h": nn.Linear(HEAD, 3)},
        *(MAP, "2x8x8 conv4k3 relu flatten fc3"),
    ),
    "channels last, and back": (
        lambda m, x: m.h(m.c(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1).relu().flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(4 * 6 * 4, 3)},
        *((8, 6, 2), "2x8x6 conv4k3 relu flatten fc3"),
    ),
    "channels last in front of a product": (
        lambda m, x: m.c(x).permute(0, 2, 3, 1).reshape(-1, HEAD).relu() @ m.w,
        lambda: {"c": conv(), "w": normal(HEAD, 3)},
        *(MAP, "2x8x8 conv4k3 flatten relu fc3"),
    ),
    "vectors that are maps": (
        lambda m, x: m.h(m.c(x.view(-1, 2, 8, 8)).view(-1, HEAD)),
        lambda: {"c": conv(), "h": nn.Linear(HEAD, 3)},
        *((128,), "2x8x8 conv4k3 flatten fc3"),
    ),
    "softmax": (
        lambda m, x: torch.softmax(m.h(x), -1),
        lambda: {"h": nn.Linear(5, 3)},
        *((5,), "5 fc3"),
    ),
    "log_softmax": (
        lambda m, x: functional.log_softmax(m.h(x), 1),
        lambda: {"h": nn.Linear(5, 3)},
        *((5,), "5 fc3"),
    ),
    "one dimension": (
        lambda m, x: m.h(m.layers(functional.pad(x, (2, 1))).mean(-1)),
        lambda: {
            "layers": nn.Sequential(
                *(row(bias=False, stride=2), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(3, 2, 1)),
                *(row(4, 4, groups=4, padding="same"), nn.BatchNorm1d(4), nn.ReLU(), nn.AvgPool1d(2), row(4, 5, 1)),
            ),
            "h": nn.Linear(5, 3),
        },
        *(ROW, "3x1x16 conv4k1x3p0,0,2,1s1x2 norm relu pool1x3p0,0,1,1s1x2 dw1x3p0,0,1,1 norm relu avg1x2 conv5k1 "),
    ),
    "a norm in front of one dimension, channels last": (
        lambda m, x: m.h(functional.adaptive_max_pool1d(m.c(m.b(x.transpose(1, 2))), 1).squeeze(2)),
        lambda: {"b": nn.BatchNorm1d(3), "c": row(), "h": nn.Linear(4, 3)},
        *((16, 3), "3x1x16 dw1 conv4k1x3 pool1x14 flatten fc3"),
    ),
    "two dimensions that become one": (
        lambda m, x: m.h(m.d(torch.relu(m.c(x)).squeeze(3)).flatten(1)),
        lambda: {"c": nn.Conv2d(2, 4, (3, 8)), "d": row(4, 5, 3, stride=2, padding=1), "h": nn.Linear(15, 3)},
        *(MAP, "2x8x8 conv4k3x8 relu conv5k3x1p1,1,0,0s2x1 flatten fc3"),
    ),
    "concatenation": (
        lambda m, x: m.h(torch.cat([m.c(x), m.d(x)], 1).relu().flatten(1)),
        lambda: {"c": row(), "d": row(3, 2, padding=0), "h": nn.Linear(84, 3)},
        *(ROW, "3x1x16 conv4k1x3 conv2k1x3@-1 relu@0 relu@1 cat@2,3 flatten fc3"),
    ),
}


def made(name):
    forward, parts, shape, text = FORMS[name]
    return drawn(lambda: Written(forward, parts())), shape, text


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_what_pytorch_gives(name):
    module, shape, text = made(name)
    network, own = imported(module, shape, name)
    assert text_of(network).startswith(text)
    inputs = torch.randn(3, *shape)
    samples = inputs
    if own.samples is not None:
        samples = torch.stack([torch.from_numpy(np.array(own.samples.taken(one.numpy()))) for one in inputs])
    with torch.no_grad():
        expected, found = module(inputs), own(samples)
    if own.left_to_host:
        found = {"softmax": torch.softmax, "log_softmax": torch.log_softmax}[own.left_to_host[0]](found, 1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert own.left_to_host == [one for one in ("softmax", "log_softmax") if one == name]
    # with the user's names, shapes and orders
    state = module.state_dict()
    for title, tensor in own_state(own).items():
        assert torch.equal(tensor.reshape(state[title].shape), state[title]), title
    tensors, parameters = stage_tensors(network, own), folded(network, own)
    for stage, wanted in zip(tensors, parameters, strict=True):
        np.testing.assert_array_equal(stage.folded(state).weight, wanted.weight)
        np.testing.assert_array_equal(stage.folded(state).bias, wanted.bias)
    back = {title: torch.from_numpy(one) for title, one in returned(tensors, parameters, state).items()}
    assert {title: one.shape for title, one in back.items() if title in state} == {
        title: state[title].shape for title in back if title in state
    }
    module.load_state_dict({**state, **{title: one for title, one in back.items() if title in state}})
    with torch.no_grad():
        torch.testing.assert_close(module(inputs), expected, rtol=1e-4, atol=1e-4)


def unsaved():
    """A module with a buffer missing from its state."""
    made = nn.Module()
    made.register_buffer("offset", torch.ones(5), persistent=False)
    return made


REFUSED = {
    "a sum that another layer does not read": (
        lambda m, x: (lambda c: m.h((m.d(functional.dropout(c, training=False) + m.b) + c).flatten(1)))(m.c(x)),
        lambda: {"c": conv(bias=False), "d": nn.Conv2d(4, 4, 1), "b": normal(4, 1, 1), "h": nn.Linear(HEAD, 3)},
        *(MAP, "c.weight is shared with"),
    ),
    "a sum with what is padded": (
        lambda m, x: m.h((functional.pad(m.c(x), (1, 1)) + m.b).flatten(1)),
        lambda: {"c": conv(bias=False), "b": normal(4, 1, 1), "h": nn.Linear(192, 3)},
        *(MAP, "aten.pad has hardware before a convolution only"),
    ),
    "a max-pool behind zeros": (
        lambda m, x: m.h(functional.max_pool2d(functional.pad(m.c(x), (1, 1, 1, 1)), 2).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(64, 3)},
        *(MAP, "aten.pad has hardware before a convolution only"),
    ),
    "a max-pool behind zeros behind -inf": (
        lambda m, x: m.h(functional.max_pool2d(functional.pad(minus(m.c(x), (1, 1)), (0, 0, 1, 1)), 2).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(64, 3)},
        *(MAP, "aten.pad of -inf has hardware before a max-pool only"),
    ),
    "a max-pool behind large numbers": (
        lambda m, x: m.h(functional.max_pool2d(functional.pad(m.c(x), (1, 1, 1, 1), value=-1e30), 2).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(64, 3)},
        *(MAP, "aten.pad pads with -1e+30, not with zeros"),
    ),
    "windows of -inf": (
        lambda m, x: m.h(functional.max_pool2d(minus(m.c(x), (2, 0, 0, 0)), 2).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(48, 3)},
        *(MAP, "a padding of 0 x 0 x 2 x 0 is not less than the windows' 2 x 2"),
    ),
    "an average behind -inf": (
        lambda m, x: m.h(functional.avg_pool2d(minus(m.c(x), (1, 1, 1, 1)), 2).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(64, 3)},
        *(MAP, "aten.pad of -inf has hardware before a max-pool only"),
    ),
    "a convolution behind -inf": (
        lambda m, x: m.h(m.c(minus(x, (1, 1))).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(4 * 6 * 8, 3)},
        *(MAP, "aten.pad of -inf has hardware before a max-pool only"),
    ),
    "one value for each sample": (
        lambda m, x: functional.linear(x, m.w, m.b),
        lambda: {"w": normal(2, 5), "b": normal(2, 1)},
        *((5,), "aten.linear has a bias of (2, 1), which is not one for each of 2 outputs"),
    ),
    "a bias of one value": (
        lambda m, x: functional.linear(x, m.w, m.b),
        lambda: {"w": normal(2, 5), "b": normal(1)},
        *((5,), "has a bias of (1,), which is not one for each of 2 outputs"),
    ),
    "a bias along the width": (
        lambda m, x: m.h((m.c(x) + m.b).flatten(1)),
        lambda: {"c": conv(6, bias=False), "b": normal(6), "h": nn.Linear(216, 3)},
        *(MAP, "aten.add adds b of (6,) to (6, 6, 6): only one value for each channel has hardware"),
    ),
    "a tensor that is made in forward": (
        lambda m, x: m.h(x) + torch.tensor([1.0, 2.0, 3.0]),
        lambda: {"h": nn.Linear(5, 3, bias=False)},
        *((5,), "aten.add has a bias that is a tensor that forward makes"),
    ),
    "a slope that is no number": (
        lambda m, x: m.h(functional.leaky_relu(m.c(x), float("nan"))),
        lambda: {"c": nn.Linear(5, 4), "h": nn.Linear(4, 3)},
        *((5,), "a slope is 0 or 2**-16 to less than 1, not nan"),
    ),
    "an infinite slope": (
        lambda m, x: m.h(functional.leaky_relu(m.c(x), float("inf"))),
        lambda: {"c": nn.Linear(5, 4), "h": nn.Linear(4, 3)},
        *((5,), "a slope is 0 or 2**-16 to less than 1, not inf"),
    ),
    "samples that may be permuted already": (
        lambda m, x: m.h(m.c(x.transpose(2, 3)).flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(HEAD, 3)},
        *(MAP, "their sizes do not say whether they are permuted already"),
    ),
    "a part of an axis": (
        lambda m, x: m.h(m.c(x)[:, :, 1:].flatten(1)),
        lambda: {"c": conv(), "h": nn.Linear(HEAD - 24, 3)},
        *(MAP, "aten.slice has no hardware but of a whole axis"),
    ),
    "a buffer that is not saved": (
        lambda m, x: m.h(x + m.b.offset),
        lambda: {"b": unsaved(), "h": nn.Linear(5, 3)},
        *((5,), "a buffer that no state dict has: register it without persistent=False"),
    ),
    "samples that are mixed": (
        lambda m, x: m.h(x.permute(1, 0).reshape(-1, 5)),
        lambda: {"h": nn.Linear(5, 3)},
        *((5,), "aten.permute by [1, 0] of (5,) has no hardware: it moves the samples of a batch"),
    ),
    "softmax between layers": (
        lambda m, x: m.h(torch.softmax(m.c(x), 1)),
        lambda: {"c": nn.Linear(5, 4), "h": nn.Linear(4, 3)},
        *((5,), "softmax has no hardware but at the end, where the host does it"),
    ),
    "TorchScript": (
        lambda m, x: m.h(x),
        lambda: {"h": torch.jit.trace(nn.Linear(5, 3), torch.zeros(1, 5))},
        *((5,), "layer h is TorchScript: give the module from which it was scripted or traced"),
    ),
    "a quantised layer": (
        lambda m, x: m.h(x),
        lambda: {"h": torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(5, 3)))},
        *((5,), "layer h.0 is quantised (Linear): give the module in float, before that"),
    ),
    "a compiled module": (
        lambda m, x: m.h(x),
        lambda: {"h": torch.compile(nn.Linear(5, 3))},
        *((5,), "layer h is compiled: give the module as it is before torch.compile"),
    ),
    "a layer of a layer": (
        lambda m, x: m.h(x),
        lambda: {"h": nn.Sequential(nn.Linear(5, 3), nn.Sequential(nn.Tanh()))},
        *((5,), ", layer h.1.0: aten.tanh has no hardware"),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_a_form_is_refused_in_one_line(name):
    forward, parts, shape, reason = REFUSED[name]
    with pytest.raises(UserError) as mistake:
        imported(Written(forward, parts()).eval(), shape, "model.py:build")
    assert reason in str(mistake.value)
    assert "\n" not in str(mistake.value)
