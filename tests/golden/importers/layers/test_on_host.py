"""A user's module run by its description: sample axes are permuted, and a final softmax is removed."""

import copy

import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import described
from fabtune.golden.importers.layers.network import user_network

TEXT = """
import torch
from torch import nn

class Signal(nn.Module):
    def __init__(self, size):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = nn.Conv1d(3, 4, 3), nn.Linear(4 * 14, 2)

    def forward(self, x):
        return torch.softmax(self.head(torch.relu(self.conv(x)).flatten(1)), 1)

class Image(Signal):
    def __init__(self, size):
        super().__init__(size)
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 6 * 4, 2)

    def forward(self, x):
        return super().forward(x.permute(0, 3, 1, 2))

def signal():
    return Signal(16)

def image():
    return Image(8)
"""
SHAPES = {"signal": ((3, 16), (3, 1, 16)), "image": ((8, 6, 3), (3, 8, 6))}


@pytest.fixture
def reference(tmp_path):
    (tmp_path / "mine.py").write_text(TEXT)
    return lambda name: f"{tmp_path / 'mine.py'}:{name}"


@pytest.mark.parametrize("name", SHAPES)
def test_the_module_runs_as_its_description(reference, name):
    given, shape = SHAPES[name]
    # the module's own shape, or the description's, as in a run's file
    for said in (given, shape):
        network, module = user_network(reference(name), said)
        own = described(network, module)
        assert network.input_shape == shape
        assert own.left_to_host == ["softmax"]
        samples = torch.randn(4, *shape)
        with torch.no_grad():
            found, expected = copy.deepcopy(module)(samples), own(samples)
        torch.testing.assert_close(found - found[:, :1], expected - expected[:, :1], rtol=1e-4, atol=1e-5)
    assert sorted(module.state_dict()) == ["conv.bias", "conv.weight", "head.bias", "head.weight"]


def test_a_shape_that_is_neither_is_refused_as_given(reference):
    with pytest.raises(UserError, match="fails on samples of 4 x 1 x 16"):
        user_network(reference("signal"), (4, 1, 16))
