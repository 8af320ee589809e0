"""Modules computing with their batch size are refused by layer; modules that only reshape by it run."""

import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.importers.batch_size import check_batch_size
from fabtune.golden.importers.layers.network import imported
from fabtune.golden.importers.transformers.own_model import transformer_of


class _Layer(nn.Module):
    """Linear layer after a function."""

    def __init__(self, function):
        super().__init__()
        self.inner, self.function = nn.Linear(4, 4), function

    def forward(self, x):
        return self.inner(self.function(x))


def _typed(x):
    return x @ torch.eye(4)


ALLOWED = {
    "views": lambda x: x.reshape(x.shape[0], 2, 2).transpose(1, 2).reshape(len(x), -1),
    "tokens of each sample": lambda x: torch.cat([x[:, :2], torch.ones(len(x), 2, dtype=x.dtype)], 1),
    "a constant of float32": _typed,
    "not a number": lambda x: x / 0,
}
REFUSED = {
    "divided": lambda x: x / len(x),
    "hardly": lambda x: x * (1 + 1e-6 * len(x)),
    "mixed": lambda x: x - x.mean(0),
    "never reached": lambda x: x.clamp(0, 1000 * len(x)),
    "chosen": lambda x: x if len(x) == 2 else -x,
    "typed": lambda x: _typed(x) * len(x),
    "two rows": lambda x: x + torch.zeros(2, 4, dtype=x.dtype),
}


@pytest.mark.parametrize("which", ALLOWED)
def test_sizes_of_a_batch_may_shape_tensors(which):
    module = _Layer(ALLOWED[which])
    check_batch_size(module, (4,), "own")
    assert module.training
    assert module.inner.weight.dtype == torch.float32


@pytest.mark.parametrize("which", REFUSED)
def test_sizes_of_a_batch_are_no_values(which):
    with pytest.raises(
        UserError,
        match=r"test_batch_size\.py:\d+: computes with the size|^own.*: gives other values|^own: runs on 2 samples and",
    ):
        check_batch_size(_Layer(REFUSED[which]), (4,), "own")


def test_the_layer_is_named():
    layers = nn.Sequential(_Layer(lambda x: x), _Layer(lambda x: x - x.mean(0)))
    with pytest.raises(UserError, match=r"^own, before layer 1\.inner: gives other values"):
        check_batch_size(layers, (4,), "own")
    layers = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Softmax(0)))
    with pytest.raises(UserError, match=r"^own, in layer 1\.1: gives other values"):
        check_batch_size(layers, (4,), "own")


def test_importers_refuse_such_modules():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.arange(12.0).view(4, 3))
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return nn.functional.linear(x, self.layer.weight, self.bias[len(x)])

    with pytest.raises(UserError, match=r"\.py:\d+: computes with the size of its batch, as aten\.select\.int differs"):
        transformer_of(Own(), (4,), "own")
    sized = nn.Sequential(nn.Linear(4, 4), _Layer(lambda x: nn.functional.leaky_relu(x, 1 / len(x))))
    with pytest.raises(UserError, match=r"\.py:\d+: computes with the size of its batch, as aten\.leaky_relu\.default"):
        imported(sized, (4,), "own")
