"""Concatenations and groups of users' models give what onnxruntime and PyTorch give."""

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.models.importers.folding import folded
from fabtune.golden.models.importers.onnx_file import onnx_network

from ....onnx_models import array, head, model_of, node, outputs_of

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
    np.testing.assert_allclose(found, outputs_of(model, given)[0], atol=1e-5)
    assert [one.weight.shape for one in folded(network, module)] == [stage.weight_shape for stage in network.stages]


def refused(nodes, tmp_path, constants=()):
    model = model_of(nodes, {**WEIGHTS, **dict(constants)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UserError) as error:
        onnx_network(tmp_path / "net.onnx")
    return str(error.value)


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
    assert "has 'u' as input 1, which is no output of a layer" in constant
