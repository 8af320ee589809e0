"""Shared weights of two layers are refused: one memory under two names, or computed twice from one tensor."""

import re

import numpy as np
import pytest
import torch
from onnx import TensorProto
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.network import imported

from ....onnx_models import array, node, refusal, same, written


class Twice(nn.Module):
    """Two products with slices of one memory."""

    def __init__(self, first, second):
        super().__init__()
        self.a, self.b = nn.Parameter(first), nn.Parameter(second)

    def forward(self, x):
        return functional.linear(torch.relu(functional.linear(x, self.a)), self.b)


BOTH = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(BOTH[:4], marks=pytest.mark.slow),
        BOTH[3:7],
        pytest.param(BOTH[:4].T, marks=pytest.mark.slow),
    ],
    ids=["same", "overlap", "transposed"],
)
def test_one_memory_under_two_names(second):
    with pytest.raises(UserError, match=r"b is shared with .*: each layer needs weights of its own"):
        imported(Twice(BOTH[:4], second).eval(), (4,), "m.py:build")


def test_two_parts_of_one_memory_are_two_weights():
    module = Twice(BOTH[:4], BOTH[4:]).eval()
    _, own = imported(module, (4,), "m.py:build")
    torch.testing.assert_close(own(BOTH), module(BOTH))


@pytest.mark.slow
def test_one_batch_norm_without_weights_behind_two_layers():
    norm = nn.BatchNorm1d(4, affine=False)
    module = nn.Sequential(nn.Linear(4, 4), norm, nn.ReLU(), nn.Linear(4, 4), norm, nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(UserError, match=r"running_mean is shared with"):
        imported(module.eval(), (4,), "m.py:build")


W = array(4, 2, 3, 3)
COMPUTED = {
    "as it is": (["Conv:x k"], {"k": W}),
    "cast": (["Cast:wd to", "Conv:x k"], {"wd": W.astype(np.float64)}),
    "transposed": (["Transpose:wt perm", "Conv:x k"], {"wt": W.transpose(3, 2, 1, 0)}),
    "reshaped": (["Reshape:wr shape", "Conv:x k"], {"wr": W.reshape(-1), "shape": np.array(W.shape)}),
    "joined": (["Concat:wa wb axis", "Conv:x k"], {"wa": W[:2], "wb": W[2:]}),
}
SETTINGS = {
    "to": {"to": TensorProto.FLOAT},
    "perm": {"perm": [3, 2, 1, 0]},
    "axis": {"axis": 0},
}


def nodes_of(lines, weight="k", output="c"):
    """Nodes from lines: kind, inputs, name of their settings."""
    found = []
    for at, line in enumerate(lines):
        kind, _, words = line.partition(":")
        inputs = [weight if word == "k" else word for word in words.split() if word not in SETTINGS]
        settings = next((SETTINGS[word] for word in words.split() if word in SETTINGS), {})
        found.append(node(kind, " ".join(inputs), output if at == len(lines) - 1 else weight, **settings))
    return found


@pytest.mark.parametrize("which", COMPUTED)
def test_a_layer_with_a_constant_and_without_it(tmp_path, which):
    """Conv(x) and Conv(x) + b are both read: two stages with one weight."""
    lines, constants = COMPUTED[which]
    nodes = [*nodes_of(lines), node("Add", "c b", "s"), node("Relu", "s", "r"), node("Concat", "r c", "z", axis=1)]
    _, path = written(tmp_path, nodes, constants, features=8 * 36)
    assert re.search(r"(its weight|k) is shared with .*: each layer needs weights of its own", refusal(path))
    model, path = written(tmp_path, [*nodes[:-2], node("Relu", "s", "z")], constants, features=4 * 36)
    same(model, path)


@pytest.mark.parametrize("which", [one for one in COMPUTED if one != "as it is"])
def test_two_layers_that_compute_one_weight(tmp_path, which):
    lines, constants = COMPUTED[which]
    first, second = nodes_of(lines, "w1st", "c"), nodes_of(lines, "w2nd", "d")
    nodes = [*first, *second, node("Relu", "c", "r"), node("Concat", "r d", "z", axis=1)]
    _, path = written(tmp_path, nodes, constants, features=8 * 36)
    assert "is shared with" in refusal(path)


def test_a_product_with_alpha_and_a_batch_norm(tmp_path):
    nodes = [node("Flatten", "x", "f"), node("Gemm", "f k", "c", alpha=0.5, transB=1), node("Add", "c b4", "s")]
    nodes += [node("Relu", "s", "r"), node("Concat", "r c", "t", axis=1), node("Gemm", "t hw", "y", transB=1)]
    _, path = written(tmp_path, nodes, {"k": array(4, 128), "hw": array(3, 8)})
    assert "its weight is shared with" in refusal(path)
    normed = [node("Conv", "x w", "v"), node("BatchNormalization", "v v4 b4 b4 v4", "c"), node("Add", "c b", "s")]
    normed += [node("Relu", "s", "r"), node("Concat", "r c", "z", axis=1)]
    _, path = written(tmp_path, normed, {}, features=8 * 36)
    assert "its weight is shared with" in refusal(path)


def test_parts_of_one_tensor_are_two_weights(tmp_path):
    nodes = [
        *(node("Slice", f"both from{at} to{at}", f"part{at}") for at in (1, 2)),
        *(node("Conv", f"x part{at}", f"c{at}") for at in (1, 2)),
        *(node("Relu", "c1", "r"), node("Concat", "r c2", "z", axis=1)),
    ]
    ends = {
        f"{kind}{at}": np.array([4 * at - (4 if kind == "from" else 0)]) for kind in ("from", "to") for at in (1, 2)
    }
    model, path = written(tmp_path, nodes, {"both": array(8, 2, 3, 3), **ends}, features=8 * 36)
    same(model, path)
    overlapping = {"from2": np.array([3]), "to2": np.array([7])}
    _, path = written(tmp_path, nodes, {"both": array(8, 2, 3, 3), **ends, **overlapping}, features=8 * 36)
    assert "is shared with" in refusal(path)
