"""torch.export programs as a user's network: result compared with PyTorch, and refusals."""

import re

import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.network import imported, user_network
from fabtune.golden.importers.transformers.own_model import own_transformer
from fabtune.golden.importers.user_module import holds_network

from ....own_modules import Convolutional, drawn


def program_of(module, shape, batch=2, dynamic=False):
    sizes = ({0: torch.export.Dim("batch")},) if dynamic else None
    return torch.export.export(module, (torch.zeros(batch, *shape),), dynamic_shapes=sizes, strict=False)


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "dynamic"), [(1, False), (3, False), (2, True)])
def test_a_file_is_the_module(tmp_path, batch, dynamic):
    module = drawn(Convolutional)
    path = tmp_path / "mine.pt2"
    torch.export.save(program_of(module, (1, 8, 8), batch, dynamic), path)
    network, own = user_network(str(path), None)
    assert network.layers == imported(module, (1, 8, 8), "mine")[0].layers
    samples = torch.randn(5, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(own(samples), module(samples), rtol=1e-5, atol=1e-5)
    assert "stem.0.weight" in own.tensor_names.values()
    assert holds_network(str(path))
    with pytest.raises(UserError, match="takes samples of 1 x 8 x 8, not of 1 x 9 x 9"):
        user_network(str(path), (1, 9, 9))


def test_a_function_may_return_one(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\ndef build():\n    module = torch.nn.Sequential(torch.nn.Linear(4, 3))\n"
        "    return torch.export.export(module, (torch.zeros(1, 4),), strict=False)\n"
    )
    network, own = user_network(f"{tmp_path / 'mine.py'}:build", None)
    assert (network.input_shape, network.classes, own.titles) == ((4,), 3, ["0"])
    with torch.no_grad():
        torch.testing.assert_close(own(torch.ones(5, 4)), own[0].bias + own[0].weight.sum(1).expand(5, 3))


class Several(nn.Module):
    def forward(self, x, y):
        return x + y


class Both(nn.Module):
    def forward(self, x):
        return x, x


PROGRAMS = {
    "takes 2 inputs": lambda: torch.export.export(Several(), (torch.zeros(2, 4), torch.zeros(2, 4)), strict=False),
    "gives 2 outputs": lambda: program_of(Both(), (4,)),
    "takes samples of int64": lambda: torch.export.export(nn.ReLU(), (torch.zeros(2, 4, dtype=torch.int64),)),
    "takes samples of ? shape: export it with fixed sizes": lambda: torch.export.export(
        nn.ReLU(), (torch.zeros(2, 4),), dynamic_shapes=({0: torch.export.Dim("n"), 1: torch.export.Dim("m")},)
    ),
    "export it in evaluation mode, after eval()": lambda: program_of(nn.BatchNorm1d(4), (4,)),
    "takes samples of float16": lambda: torch.export.export(
        nn.Linear(4, 3).half(), (torch.zeros(2, 4, dtype=torch.float16),), strict=False
    ),
    "aten.mean is over [0], not over a map's height and width": lambda: program_of(Mean(), (4,), 1),
}


class Mean(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


@pytest.mark.parametrize("reason", PROGRAMS)
def test_other_programs_are_refused(tmp_path, reason):
    path = tmp_path / "mine.pt2"
    torch.export.save(PROGRAMS[reason](), path)
    with pytest.raises(UserError, match=re.escape(reason)):
        user_network(str(path), None)


def test_damaged_and_absent_files_are_refused(tmp_path):
    path = tmp_path / "mine.pt2"
    with pytest.raises(UserError, match="there is no file"):
        user_network(str(path), None)
    path.write_bytes(b"no program")
    with pytest.raises(UserError, match=r"mine\.pt2 is not a program of torch\.export, or is damaged: "):
        user_network(str(path), None)


@pytest.mark.slow
def test_a_transformer_is_one(tmp_path):
    layers = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    torch.export.save(
        program_of(nn.Sequential(layers, nn.Linear(8, 2)).eval(), (5, 8), dynamic=True), tmp_path / "t.pt2"
    )
    found = own_transformer(str(tmp_path / "t.pt2"), None)
    assert found is not None
    assert "0.linear1.weight" in found.tensor_names.values()
