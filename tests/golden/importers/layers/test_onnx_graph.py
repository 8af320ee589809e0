"""Tensor views in ONNX: channels last, signals, vectors as maps."""

import numpy as np
import pytest

from fabtune.golden.importers.layers.own_tensors import own_state, stage_tensors
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import (
    AveragePool,
    BatchNorm,
    Convolution,
    Depthwise,
    Flatten,
    Linear,
    MaxPool,
)

from ....onnx_models import SAME, array, node, refusal, same, written


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("MaxPool", "c", "z", kernel_shape=[1, 1], strides=[2, 2])], "windows of 1 x 1 with a stride of (2, 2)"),
        ([node("Softmax", "c", "s", axis=1), node("Relu", "s", "z")], "of (4, 6, 6) over the axis 1 has no hardware"),
        (
            [node("Flatten", "c", "f"), node("Softmax", "f", "s"), node("Relu", "s", "z")],
            "node 'my_Softmax' (Softmax): has no hardware but at the end, where the host does it",
        ),
        ([node("Transpose", "c", "t", perm=[0, 2, 3, 1]), node("Conv", "t w1", "z")], "as a map it has hardware in"),
        ([node("Transpose", "c", "t", perm=[0, 1, 3, 2]), node("Add", "t c", "z")], "in different orders"),
        (
            [node("Reshape", "c to", "t"), node("Conv", "t w1", "z")],
            "reads (4, 9, 4), which is another view of (4, 6, 6)",
        ),
        (
            [
                node("Transpose", "c", "t", perm=[0, 2, 3, 1]),
                node("BatchNormalization", "t one one one one", "z"),
            ],
            "reads (6, 6, 4), whose channels are not those of a layer",
        ),
        ([node("Shape", "c", "s"), node("Cast", "s", "f", to=1), node("Add", "c f", "z")], "size of the batch"),
    ],
)
def test_what_reads_another_view_is_refused(nodes, message, tmp_path):
    constants = {"to": np.array([0, 4, 9, 4]), "one": np.ones(6, np.float32)}
    _, path = written(tmp_path, [node("Conv", "x w", "c"), *nodes], constants, features=144)
    assert message in refusal(path)


def keras(flat, matrix, constants):
    """Keras network: a Dense layer reads maps in (height, width, channels)."""
    nodes = [node("Transpose", "x", "t", perm=[0, 3, 1, 2]), node("Conv", "t w b4", "c", auto_pad="SAME_UPPER")]
    nodes += [node("Relu", "c", "r"), node("Transpose", "r", "u", perm=[0, 2, 3, 1]), *flat, matrix]
    return nodes, {"m": array(4 * 5 * 6, 3), "whole": np.array([-1, 120])} | constants


FLAT = {
    "flatten": [node("Flatten", "u", "f")],
    "reshape": [node("Reshape", "u whole", "f")],
    "elementwise": [node("Identity", "u", "i"), node("Flatten", "i", "g"), node("Dropout", "g", "f")],
}


@pytest.mark.parametrize("flat", FLAT.values(), ids=FLAT)
@pytest.mark.parametrize("turned", [False, True], ids=["in, out", "out, in"])
def test_columns_of_a_matrix_behind_a_flatten_of_channels_last(flat, turned, tmp_path):
    matrix = node("Gemm", "f m b3", "y", transB=1) if turned else node("MatMul", "f m", "y")
    nodes, constants = keras(flat, matrix, {"b3": array(3)})
    constants["m"] = constants["m"].T.copy() if turned else constants["m"]
    model, path = written(tmp_path, nodes, constants, (5, 6, 2))
    network, module = same(model, path, turned=(2, 3, 1))
    assert network.layers == (Convolution(4, 3, 1), Relu(), Flatten(), Linear(3))
    # the file's own tensor returns unchanged
    stage = stage_tensors(network, module)[1]
    assert stage.weight == "m"
    np.testing.assert_array_equal(own_state(module)["m"].numpy(), constants["m"])
    np.testing.assert_array_equal(stage.given(module[3].weight.detach().numpy()), constants["m"])


def test_two_matrices_that_read_channels_last(tmp_path):
    nodes, constants = keras(FLAT["flatten"], node("MatMul", "f m", "a"), {"n": array(120, 3)})
    nodes += [node("MatMul", "f n", "d"), node("Add", "a d", "y")]
    same(*written(tmp_path, nodes, constants, (5, 6, 2)), turned=(2, 3, 1))


def test_a_mean_of_channels_last(tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Transpose", "c", "t", perm=[0, 2, 3, 1])]
    nodes += [node("ReduceMean", "t axes", "z", keepdims=0)]
    network, _ = same(*written(tmp_path, nodes, {"axes": np.array([1, 2])}, features=4))
    assert AveragePool(6) in network.layers


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceMax"])
@pytest.mark.parametrize("keep", [0, 1])
def test_means_of_one_axis_after_the_other(kind, keep, tmp_path):
    nodes = [
        node("Conv", "x w", "c"),
        node(kind, "c across", "a", keepdims=keep),
        node(kind, "a down", "z", keepdims=0),
    ]
    constants = {"across": np.array([3]), "down": np.array([-1 if not keep else -2])}
    if keep:
        nodes[-1] = node(kind, "a both", "z", keepdims=0)
        constants["both"] = np.array([2, 3])
    model, path = written(tmp_path, nodes, constants, features=4)
    network, _ = same(model, path)
    assert network.stages[0].pool.size == (6, 6)


def test_pools_with_gaps_between_their_windows_are_not_joined(tmp_path):
    pools = [
        node("MaxPool", "c", "p", kernel_shape=[2, 2], strides=[3, 3]),
        node("MaxPool", "p", "z", kernel_shape=[2, 2]),
    ]
    _, path = written(tmp_path, [node("Conv", "x w", "c", **SAME), *pools], {}, features=16)
    assert "a stride of 3 x 3 is not 1 to the window's 2 x 2" in refusal(path)


def test_two_pools_are_one(tmp_path):
    pools = [
        node("MaxPool", "c", "p", kernel_shape=[3, 2], strides=[2, 1]),
        node("MaxPool", "p", "z", kernel_shape=[2, 2]),
    ]
    network, _ = same(*written(tmp_path, [node("Conv", "x w", "c", **SAME), *pools], {}, features=4 * 2 * 6))
    assert network.layers[1] == MaxPool((5, 3), (2, 1))


@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool"])
def test_a_pool_of_a_signal_as_a_column(kind, tmp_path):
    """Old exporters write one-axis pools this way."""
    nodes = [node("Conv", "x k", "c"), node("Unsqueeze", "c three", "u")]
    nodes += [node(kind, "u", "p", kernel_shape=[2, 1], strides=[2, 1]), node("Squeeze", "p three", "z")]
    constants = {"k": array(4, 2, 3), "three": np.array([3])}
    network, _ = same(*written(tmp_path, nodes, constants, (2, 9), features=4 * 3))
    assert network.stages[0].pool.size == (1, 2)


@pytest.mark.parametrize(
    ("shape", "to", "seen"),
    [((5, 6, 1), (-1, 1, 5, 6), (1, 5, 6)), ((5, 6), (-1, 1, 5, 6), (1, 5, 6)), ((30,), (-1, 1, 5, 6), (1, 5, 6))],
)
def test_a_reshape_of_the_sample_as_tf2onnx_writes_it(shape, to, seen, tmp_path):
    constants = {"to": np.array(to), "k": array(4, 1, 3, 3)}
    nodes = [node("Reshape", "x to", "t"), node("Conv", "t k", "z")]
    network, _ = same(*written(tmp_path, nodes, constants, shape, features=4 * 3 * 4))
    assert network.input_shape == seen


@pytest.mark.parametrize("opset", [9, 13])
def test_a_batch_norm_of_a_vector_as_old_exporters_write_it(opset, tmp_path):
    axes = {"axes": [2]} if opset == 9 else {}
    more = "" if opset == 9 else " ax"
    nodes = [node("Gemm", "x g", "a", transB=1), node("Unsqueeze", f"a{more}", "u", **axes)]
    nodes += [node("BatchNormalization", "u b4 b4 b4 v4", "n"), node("Squeeze", f"n{more}", "s", **axes)]
    nodes += [node("Relu", "s", "r"), node("MatMul", "r h", "y")]
    constants = {"g": array(4, 6), "ax": np.array([2]), "h": array(4, 3)}
    if opset == 9:
        nodes = [one if one.op_type != "Gemm" else node("Gemm", "x g b4", "a", transB=1) for one in nodes]
    network, _ = same(*written(tmp_path, nodes, constants, (6,), opset))
    assert network.layers == (Linear(4), BatchNorm(), Relu(), Linear(3))


SIGNALS = {
    "plain": (
        [node("Conv", "x k b4", "c", pads=[1, 2], strides=[2]), node("Relu", "c", "r")],
        (2, 9),
        (Convolution(4, (1, 3), (0, 0, 1, 2), (1, 2)), Relu()),
        4 * 5,
    ),
    "depthwise": ([node("Conv", "x d", "r", group=2)], (2, 9), (Depthwise((1, 3)),), 2 * 7),
    "same": (
        [node("Conv", "x k", "r", auto_pad="SAME_UPPER", strides=[2])],
        (2, 9),
        (Convolution(4, (1, 3), (0, 0, 1, 1), (1, 2)),),
        4 * 5,
    ),
    "padded": (
        [node("Pad", "x two", "p"), node("Conv", "p k", "r")],
        (2, 9),
        (Convolution(4, (1, 3), (0, 0, 2, 0)),),
        4 * 9,
    ),
    "pools": (
        [
            node("Conv", "x k", "c"),
            node("BatchNormalization", "c b4 b4 b4 v4", "n"),
            node("MaxPool", "n", "r", kernel_shape=[3], strides=[2], pads=[1, 0]),
        ],
        (2, 9),
        (Convolution(4, (1, 3)), BatchNorm(), MaxPool((1, 3), (1, 2), (0, 0, 1, 0))),
        4 * 3,
    ),
    "average": (
        [node("Conv", "x k", "c"), node("AveragePool", "c", "r", kernel_shape=[2], strides=[2])],
        (2, 9),
        (Convolution(4, (1, 3)), AveragePool((1, 2))),
        4 * 3,
    ),
    "global": (
        [node("Conv", "x k", "c"), node("GlobalAveragePool", "c", "r")],
        (2, 9),
        (Convolution(4, (1, 3)), AveragePool((1, 7))),
        4,
    ),
    "mean": (
        [node("Conv", "x k", "c"), node("ReduceMean", "c last", "r", keepdims=0)],
        (2, 9),
        (Convolution(4, (1, 3)), AveragePool((1, 7))),
        4,
    ),
}


@pytest.mark.parametrize(("nodes", "shape", "layers", "features"), SIGNALS.values(), ids=SIGNALS)
def test_signals_are_maps_of_one_row(nodes, shape, layers, features, tmp_path):
    constants = {"k": array(4, 2, 3), "d": array(2, 1, 3), "two": np.array([0, 0, 2, 0, 0, 0]), "last": np.array([-1])}
    network, module = same(*written(tmp_path, nodes, constants, shape, features=features, source="r"))
    assert network.input_shape == (2, 1, 9)
    assert network.layers == (*layers, Flatten(), Linear(3))
    name = "d" if "depthwise" in str(nodes) or layers[0] == Depthwise((1, 3)) else "k"
    np.testing.assert_array_equal(own_state(module)[name].numpy(), constants[name])


def test_a_signal_of_keras(tmp_path):
    """(length, channels), as a map of one row, channels last before the matrix."""
    nodes = [node("Unsqueeze", "x one", "u"), node("Transpose", "u", "t", perm=[0, 3, 1, 2]), node("Conv", "t k", "c")]
    nodes += [node("Squeeze", "c two", "s"), node("Relu", "s", "r"), node("Transpose", "r", "v", perm=[0, 2, 1])]
    constants = {"one": np.array([1]), "two": np.array([2]), "k": array(4, 2, 1, 3)}
    model, path = written(tmp_path, nodes, constants, (9, 2), features=28, source="v")
    network, _ = same(model, path, turned=(2, 3, 1))
    assert network.input_shape == (2, 1, 9)
