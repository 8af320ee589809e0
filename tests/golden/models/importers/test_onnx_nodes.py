"""Nodes of ONNX whose rewrite is right only under a condition: right, or refused, against onnxruntime."""

import re

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper

from fabtune.golden.errors import UserError
from fabtune.golden.models.importers import onnx_constants
from fabtune.golden.models.importers.onnx_file import onnx_network
from fabtune.golden.models.importers.own_tensors import own_state, stage_tensors
from fabtune.golden.models.layers import (
    AveragePool,
    BatchNorm,
    Convolution,
    Depthwise,
    Flatten,
    Linear,
    MaxPool,
    Relu,
)
from fabtune.golden.models.stages import MOST_PARAMETERS, MOST_VALUES

from ....onnx_models import array, model_of, node, outputs_of

C1 = {
    "w": array(4, 2, 3, 3),
    "w1": array(4, 4, 3, 3),
    "w2": array(4, 4, 1, 1),
    "b": array(1, 4, 1, 1),
    "b4": array(4),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "low": np.array([0, 0, 0, 0, 0, 0, 1, 1]),
    "v4": np.abs(array(4)) + 1,
    "zero": np.float32(0),
}
SAME = {"pads": [1, 1, 1, 1]}


def tail(source, features, weight="hw"):
    """Flatten and a linear layer."""
    return [node("Flatten", source, "flat"), node("Gemm", f"flat {weight}", "y", transB=1)], {"hw": array(3, features)}


def written(path, nodes, constants, shape=(2, 8, 8), opset=20, features=None, source="z"):
    """A file of nodes, with flatten and a linear layer behind them if the number of features is given."""
    more, weights = tail(source, features) if features else ([], {})
    used = {name for one in (*nodes, *more) for name in one.input}
    kept = {name: value for name, value in {**C1, **weights, **constants}.items() if name in used}
    model = model_of([*nodes, *more], kept, ("n", *shape), opset)
    (path / "model.onnx").write_bytes(model.SerializeToString())
    return model, path / "model.onnx"


def same(model, path, turned=None):
    """Import a file, and compare it with onnxruntime on samples whose axes are put in the order of `turned`."""
    network, module = onnx_network(path)
    x = np.random.default_rng(1).normal(0, 1, (3, *network.input_shape)).astype(np.float32)
    shape = [one.dim_value for one in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    given = x if turned is None else x.transpose(0, *turned)
    (expected,) = outputs_of(model, given.reshape(3, *shape))
    with torch.no_grad():
        found = module(torch.from_numpy(x))
        for what in module.left_to_host:
            found = getattr(torch, what)(found, 1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    return network, module


def refusal(path):
    with pytest.raises(UserError) as mistake:
        onnx_network(path)
    assert str(mistake.value).startswith(str(path))
    assert "\n" not in str(mistake.value)
    return str(mistake.value)


# -- a rewrite that is right only if nothing else reads the tensor, or nothing is in between ---------------------------

ALIASES = {
    "none": [],
    "identity": [node("Identity", "c", "i")],
    "dropout": [node("Dropout", "c", "i")],
    "reshape": [node("Reshape", "c whole", "i")],
    "pool": [node("MaxPool", "c", "i", kernel_shape=[1, 1])],
    "several": [node("Identity", "c", "h"), node("Dropout", "h", "i")],
}
WHOLE = {"whole": np.array([0, 4, 8, 8])}


@pytest.mark.parametrize("aliases", ALIASES.values(), ids=ALIASES)
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_a_constant_that_is_added_for_one_of_two_readers(aliases, behind, tmp_path):
    """conv(c + b, w1) + c: the bias is not in c."""
    first = "i" if aliases else "c"
    nodes = [node("Conv", "x w", "c", **SAME), *aliases, node("Add", f"{first} b", "q")]
    nodes += [node("Conv", "q w1", "d", **SAME), node("Add", "d i" if behind and aliases else "d c", "z")]
    _, path = written(tmp_path, nodes, WHOLE, features=256)
    assert "w is shared with" in refusal(path)


@pytest.mark.parametrize("aliases", ALIASES.values(), ids=ALIASES)
def test_a_constant_that_is_added_for_the_only_reader_is_a_bias(aliases, tmp_path):
    nodes = [node("Conv", "x w", "c", **SAME), *aliases, node("Add", ("i" if aliases else "c") + " b", "q")]
    nodes += [node("Conv", "q w1", "d", **SAME), node("Add", "d q", "z")]
    network, _ = same(*written(tmp_path, nodes, WHOLE, features=256))
    assert len(network.stages) == 3


def test_a_constant_that_is_added_twice(tmp_path):
    nodes = [node("Conv", "x w b4", "c", **SAME), node("Add", "b c", "q"), node("Sum", "q b", "z")]
    network, _ = same(*written(tmp_path, nodes, {}, features=256))
    assert len(network.stages) == 2


def test_a_constant_that_is_added_behind_a_pad(tmp_path):
    """The border would be b, not 0."""
    nodes = [node("Conv", "x w", "c", **SAME), node("Pad", "c pads", "p"), node("Add", "p b", "q")]
    _, path = written(tmp_path, [*nodes, node("Conv", "q w2", "z")], {}, features=400)
    assert "reads what a Pad gives" in refusal(path)


@pytest.mark.parametrize(
    ("shape", "added"),
    [
        ((4, 1, 1), True),
        ((1, 4, 1, 1), True),
        ((), True),
        ((1,), True),
        ((1, 1, 1, 1), True),
        ((4, 8, 1), False),
        ((8,), False),
        ((1, 1, 8, 8), False),
        ((3, 1, 1, 1), False),
        ((3, 4, 1, 1), False),
        ((1, 1, 4, 1, 1), False),
    ],
)
def test_constants_of_a_shape(shape, added, tmp_path):
    nodes = [node("Conv", "x w", "c", **SAME), node("Add", "c k", "z")]
    model, path = written(tmp_path, nodes, {"k": array(*shape)}, features=256)
    if added:
        same(model, path)
    else:
        assert f"adds a constant of {shape}" in refusal(path)


@pytest.mark.parametrize(
    ("shape", "added"),
    [((3,), True), ((1, 3), True), ((), True), ((1,), True), ((1, 1), True), ((3, 1), False), ((3, 3), False)],
)
def test_biases_of_a_matrix(shape, added, tmp_path):
    """A column is one value a sample of a batch of that size, not one an output."""
    constants = {"g": array(3, 6), "k": array(*shape)}
    model, path = written(tmp_path, [node("Gemm", "x g k", "y", transB=1, beta=2.0)], constants, (6,))
    if added:
        same(model, path)
    else:
        assert f"has a bias of {shape}, which is not one for each of 3 outputs" in refusal(path)


@pytest.mark.parametrize("opset", [9, 13, 14])
def test_a_batch_norm_in_training_is_refused(opset, tmp_path):
    outputs = "z rm rv" if opset == 14 else "z rm rv sm sv"
    settings = {"training_mode": 1} if opset == 14 else {}
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c b4 b4 b4 v4", outputs, **settings)]
    _, path = written(tmp_path, nodes, {}, opset=opset, features=144)
    assert "takes the statistics of a batch, not constant ones" in refusal(path)


@pytest.mark.parametrize("kind", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_paddings_behind_a_pad_are_those_of_the_padded_map(kind, tmp_path):
    nodes = [node("Pad", "x low", "p"), node("Pad", "p low", "q"), node("Identity", "q", "i")]
    nodes += [node("Conv", "i w", "z", auto_pad=kind, strides=[2, 2])]
    sides = {"VALID": 4}.get(kind, 5)
    network, _ = same(*written(tmp_path, nodes, {}, features=4 * sides * sides))
    assert network.stages[0].output_shape == (4, sides, sides)


def test_a_pad_with_axes(tmp_path):
    constants = {"some": np.array([1, 0, 0, 2]), "axes": np.array([-1, 2])}
    nodes = [node("Pad", "x some zero axes", "p"), node("Conv", "p w", "z")]
    network, _ = same(*written(tmp_path, nodes, constants, features=4 * 8 * 7))
    assert network.layers[0] == Convolution(4, 3, (0, 2, 1, 0))


def test_a_relu_of_what_a_second_layer_has_read_without_it(tmp_path):
    """The stage would give the second layer the ReLU's outputs."""
    nodes = [node("Conv", "x w b4", "c", **SAME), node("Conv", "c w1", "d", **SAME), node("Relu", "c", "r")]
    _, path = written(tmp_path, [*nodes, node("Add", "d r", "z")], {}, features=256)
    assert "follows my_Conv, which my_Conv reads without it" in refusal(path)


@pytest.mark.parametrize("copy", [[], [node("Identity", "m", "m2")], [node("Cast", "m", "m2", to=1)]])
def test_matrices_that_two_layers_share_are_refused(copy, tmp_path):
    nodes = [
        *copy,
        node("MatMul", "x m", "a"),
        node("Relu", "a", "r"),
        node("MatMul", f"r {'m2' if copy else 'm'}", "c"),
    ]
    nodes += [node("MatMul", "c n", "y")]
    _, path = written(tmp_path, nodes, {"m": array(6, 6), "n": array(6, 3)}, (6,))
    assert "m is shared with" in refusal(path)


# -- malformed files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "weight", "bias"),
    [
        ("conv", (4, 2, 3, 3), (3,)),
        ("conv", (4, 2, 3, 3), (4, 1)),
        ("conv", (4, 2, 3, 3), (1, 4, 1, 1)),
        ("conv", (4, 2, 3, 3), ()),
        ("depthwise", (2, 1, 3, 3), (3,)),
        ("depthwise", (2, 1, 3, 3), (2, 1)),
    ],
)
def test_biases_of_another_shape(kind, weight, bias, tmp_path):
    groups = {"conv": 1, "depthwise": 2}[kind]
    nodes = [node("Conv", "x k l", "z", group=groups)]
    _, path = written(tmp_path, nodes, {"k": array(*weight), "l": array(*bias)}, features=weight[0] * 36)
    assert f"has a bias of {bias}, not of ({weight[0]},)" in refusal(path)


@pytest.mark.parametrize("slope", [float("nan"), float("inf"), -float("inf"), -0.5, 1e-9])
def test_slopes_that_are_none(slope, tmp_path):
    nodes = [node("Conv", "x w", "c"), node("LeakyRelu", "c", "z", alpha=slope)]
    _, path = written(tmp_path, nodes, {}, features=144)
    assert "a slope is 0 or 2**-16 to less than 1, not" in refusal(path)


@pytest.mark.parametrize("shape", [(2, 1 << 30, 1 << 30), (2, 4096, 4096), (1 << 40,), (1 << 20, 1 << 20)])
def test_a_sample_beyond_the_limit_is_refused_before_it_is_made(shape, tmp_path):
    nodes = [node("Transpose", "x", "t", perm=[0, *range(len(shape), 0, -1)]), node("Identity", "t", "z")]
    _, path = written(tmp_path, nodes, {}, shape, features=1)
    sizes = " x ".join(map(str, shape))
    count = int(np.prod(np.array(shape, object)))
    assert f"a sample of x has {sizes} = {count} values, more than the limit of {MOST_VALUES}" in refusal(path)


def test_outputs_beyond_the_limit_are_refused(tmp_path):
    nodes = [node("Conv", "x w", "z", pads=[1 << 20] * 4)]
    _, path = written(tmp_path, nodes, {}, features=1)
    assert f"values, more than the limit of {MOST_VALUES}" in refusal(path)


def test_constants_that_grow_beyond_the_limit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_constants, "MOST_PARAMETERS", 1 << 16)
    nodes = [node("Concat", f"k{at} k{at}", f"k{at + 1}", axis=0) for at in range(40)]
    nodes += [node("Conv", "x k40", "z")]
    _, path = written(tmp_path, nodes, {"k0": array(4, 2, 3, 3)}, features=1)
    assert "computes constants of more than the limit of 65536 values" in refusal(path)


def test_a_constant_of_one_value_beyond_the_limit_is_refused(tmp_path):
    nodes = [node("ConstantOfShape", "s", "k"), node("Conv", "x k", "z")]
    _, path = written(tmp_path, nodes, {"s": np.array([1 << 20, 1 << 20, 3, 3])}, features=1)
    assert f"computes constants of more than the limit of {MOST_PARAMETERS} values" in refusal(path)


def test_an_attribute_of_another_operator_is_refused(tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "z", alpha=0.5)]
    _, path = written(tmp_path, nodes, {}, features=144)
    assert "is not as opset 20 has it: Unrecognized attribute: alpha" in refusal(path)


def test_a_function_that_has_an_operators_name_is_refused(tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "z")]
    model, path = written(tmp_path, nodes, {}, features=144)
    function = helper.make_function("", "Relu", ["a"], ["b"], [node("Neg", "a", "b")], [helper.make_opsetid("", 20)])
    model.functions.append(function)
    path.write_bytes(model.SerializeToString())
    assert "has a function of its own in the domain of ONNX" in refusal(path)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("MaxPool", "c", "z", kernel_shape=[1, 1], strides=[2, 2])], "windows of 1 x 1 with a stride of (2, 2)"),
        ([node("Softmax", "c", "s", axis=1), node("Relu", "s", "z")], "of (4, 6, 6) over the axis 1 has no hardware"),
        (
            [node("Flatten", "c", "f"), node("Softmax", "f", "s"), node("Relu", "s", "z")],
            "reads what a softmax gives, which has no hardware: it is left to the host as the last node only",
        ),
        ([node("Transpose", "c", "t", perm=[0, 2, 3, 1]), node("Conv", "t w1", "z")], "as a map it has hardware in"),
        ([node("Transpose", "c", "t", perm=[0, 1, 3, 2]), node("Add", "t c", "z")], "in different orders"),
        ([node("Reshape", "c to", "t"), node("Conv", "t w1", "z")], "reads (4, 9, 4), which a Reshape or a Transpose"),
        (
            [
                node("Transpose", "c", "t", perm=[0, 2, 3, 1]),
                node("Flatten", "t", "f"),
                node("BatchNormalization", "f one one one one", "z"),
            ],
            "normalises features that a Transpose has put into another order",
        ),
        ([node("Shape", "c", "s"), node("Cast", "s", "f", to=1), node("Add", "c f", "z")], "size of the batch"),
    ],
)
def test_what_reads_another_view_is_refused(nodes, message, tmp_path):
    constants = {"to": np.array([0, 4, 9, 4]), "one": np.ones(144, np.float32)}
    _, path = written(tmp_path, [node("Conv", "x w", "c"), *nodes], constants, features=144)
    assert message in refusal(path)


# -- what exporters write ----------------------------------------------------------------------------------------------


def test_a_ceiling_beyond_all_values_is_a_plain_relu(tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Clip", "c zero top", "z")]
    network, _ = same(*written(tmp_path, nodes, {"top": np.float32(3.4e38)}, features=144))
    assert network.layers[1] == Relu()


CONSTANT_NODES = {
    "cast": ([node("Cast", "k", "w", to=1)], {"k": array(4, 2, 3, 3).astype(np.float64)}),
    "half": ([node("Cast", "k", "w", to=1)], {"k": array(4, 2, 3, 3).astype(np.float16)}),
    "reshape": ([node("Reshape", "k s", "w")], {"k": array(72), "s": np.array([4, 2, -1, 3])}),
    "zero": ([node("Reshape", "k s", "w")], {"k": array(4, 18), "s": np.array([0, 2, 3, 3])}),
    "floats": (
        [node("Constant", "", "k", value_floats=[0.5] * 72), node("Reshape", "k s", "w")],
        {"s": np.array([4, 2, 3, 3])},
    ),
    "slice": (
        [node("Slice", "k a e x1 st", "w")],
        {
            "k": array(8, 2, 3, 3),
            "a": np.array([-1]),
            "e": np.array([-10]),
            "x1": np.array([0]),
            "st": np.array([-2]),
        },
    ),
    "shape": ([node("Shape", "l", "s", start=0, end=4), node("Reshape", "k s", "w")], {"k": array(72), "l": C1["w"]}),
}


@pytest.mark.parametrize(("nodes", "constants"), CONSTANT_NODES.values(), ids=CONSTANT_NODES)
def test_weights_that_nodes_of_constants_give(nodes, constants, tmp_path):
    model, path = written(tmp_path, [*nodes, node("Conv", "x w", "z")], constants, features=144)
    del model.graph.initializer[[one.name for one in model.graph.initializer].index("w")]
    path.write_bytes(model.SerializeToString())
    same(model, path)


@pytest.mark.parametrize("settings", [{"start": 0, "end": 1}, {"end": -3}, {"start": -4, "end": 1}])
def test_the_batch_by_a_part_of_a_shape(settings, tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Shape", "c", "n", **settings), node("Concat", "n rest", "to", axis=0)]
    nodes += [node("Reshape", "c to", "z")]
    same(*written(tmp_path, nodes, {"rest": np.array([-1])}, features=144))


def test_the_batch_at_another_place_is_refused(tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Shape", "c", "n", end=1), node("Concat", "rest n", "to", axis=0)]
    _, path = written(tmp_path, [*nodes, node("Reshape", "c to", "z")], {"rest": np.array([144])}, features=144)
    assert "from (4, 6, 6) to 144 x batch does not keep each sample for itself" in refusal(path)


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("opset", "axis"), [(11, None), (13, None), (13, 1), (13, -1)])
def test_a_softmax_of_the_logits_is_left_to_the_host(kind, opset, axis, tmp_path):
    settings = {} if axis is None else {"axis": axis}
    nodes = [node("Gemm", "x g", "l", transB=1), node(kind, "l", "s", **settings), node("Identity", "s", "y")]
    _, module = same(*written(tmp_path, nodes, {"g": array(3, 6)}, (6,), opset))
    assert module.left_to_host == [{"Softmax": "softmax", "LogSoftmax": "log_softmax"}[kind]]


def keras(flat, matrix, constants):
    """A network of Keras: maps in (height, width, channels) where a Dense layer reads them."""
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
    # the file's own tensor comes back as it is
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
    """(length, channels), as a map of one row, and channels last before the matrix."""
    nodes = [node("Unsqueeze", "x one", "u"), node("Transpose", "u", "t", perm=[0, 3, 1, 2]), node("Conv", "t k", "c")]
    nodes += [node("Squeeze", "c two", "s"), node("Relu", "s", "r"), node("Transpose", "r", "v", perm=[0, 2, 1])]
    constants = {"one": np.array([1]), "two": np.array([2]), "k": array(4, 2, 1, 3)}
    model, path = written(tmp_path, nodes, constants, (9, 2), features=28, source="v")
    network, _ = same(model, path, turned=(2, 3, 1))
    assert network.input_shape == (2, 1, 9)


def test_a_tensor_that_a_node_gives_keeps_its_name(tmp_path):
    value = array(4, 2, 3, 3)
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(value))
    _, module = same(*written(tmp_path, [constant, node("Conv", "x k", "z")], {}, features=144))
    np.testing.assert_array_equal(own_state(module)["k"].numpy(), value)


def test_opsets_of_one_file(tmp_path):
    model, path = written(tmp_path, [node("Conv", "x w", "z")], {}, features=144)
    model.opset_import.append(helper.make_opsetid("ai.onnx", 9))
    path.write_bytes(model.SerializeToString())
    assert re.search("has 2 opsets of ONNX's own operators", refusal(path))
