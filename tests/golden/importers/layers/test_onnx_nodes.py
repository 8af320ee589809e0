"""ONNX nodes whose rewrite is conditional: correct or refused, compared with onnxruntime."""

import re

import numpy as np
import pytest
from onnx import helper

from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import Convolution, Depthwise
from fabtune.golden.models.stages import MOST_VALUES

from ....onnx_models import SAME, array, node, refusal, same, written

# -- rewrites that require a tensor without other readers, or adjacent nodes
# --------------------------------------------

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
    assert "(Pad): has hardware before a convolution only" in refusal(path)


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
        assert f"adds k of {shape}" in refusal(path)


@pytest.mark.parametrize(
    ("shape", "added"),
    [((3,), True), ((1, 3), True), ((), True), ((1,), True), ((1, 1), True), ((3, 1), False), ((3, 3), False)],
)
def test_biases_of_a_matrix(shape, added, tmp_path):
    """A column is a value per sample for this batch size, not per output."""
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


@pytest.mark.parametrize("kind", ["SAME_UPPER", "VALID"])
def test_a_max_pool_behind_a_pad_of_minus_infinity(kind, tmp_path):
    constants = {"least": np.float32(-np.inf), "axes": np.array([3]), "some": np.array([1, 0])}
    nodes = [node("Conv", "x w", "c"), node("Pad", "c some least axes", "p")]
    nodes += [node("MaxPool", "p", "z", kernel_shape=[3, 3], strides=[2, 2], auto_pad=kind)]
    down, across = {"VALID": (2, 3), "SAME_UPPER": (3, 4)}[kind]
    network, _ = same(*written(tmp_path, nodes, constants, features=4 * down * across))
    assert network.stages[0].pool.padding == {"VALID": (0, 0, 1, 0), "SAME_UPPER": (0, 1, 2, 1)}[kind]


@pytest.mark.parametrize("least", [0, -1e30])
def test_a_max_pool_behind_a_pad_of_numbers_is_refused(least, tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Pad", "c pads least", "p"), node("MaxPool", "p", "z", kernel_shape=[2, 2])]
    _, path = written(tmp_path, nodes, {"least": np.float32(least)}, features=1)
    assert "(Pad): " in refusal(path)


def test_a_pad_with_axes(tmp_path):
    constants = {"some": np.array([1, 0, 0, 2]), "axes": np.array([-1, 2])}
    nodes = [node("Pad", "x some zero axes", "p"), node("Conv", "p w", "z")]
    network, _ = same(*written(tmp_path, nodes, constants, features=4 * 8 * 7))
    assert network.layers[0] == Convolution(4, 3, (0, 2, 1, 0))


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1), (), (1, 1, 1, 1)])
def test_factors_of_channels(shape, tmp_path):
    """A batch norm after a ReLU, as exported by fabtune."""
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Mul", "k r", "m"), node("Add", "m b", "z")]
    network, module = same(*written(tmp_path, nodes, {"k": array(*shape)}, features=144))
    assert network.layers[2] == Depthwise(1)
    assert ("2.weight" in module.tensor_names) == (shape not in ((), (1, 1, 1, 1)))


@pytest.mark.parametrize("shape", [(6,), (1, 6), ()])
def test_factors_of_features(shape, tmp_path):
    nodes = [node("Gemm", "x g", "c", transB=1), node("Relu", "c", "r"), node("Mul", "r k", "m")]
    nodes += [node("Gemm", "m h", "y", transB=1)]
    network, _ = same(*written(tmp_path, nodes, {"g": array(6, 5), "k": array(*shape), "h": array(3, 6)}, (5,)))
    assert network.layers[2] == Depthwise(1)


def test_other_factors_are_refused(tmp_path):
    for shape in ((6, 6), (6,), (4, 1, 6), (3, 4, 1, 1)):
        _, path = written(
            tmp_path, [node("Conv", "x w", "c"), node("Mul", "c k", "z")], {"k": array(*shape)}, features=144
        )
        assert ": only one value for each channel has hardware" in refusal(path)
    _, path = written(tmp_path, [node("Conv", "x w", "c"), node("Mul", "c c", "z")], {}, features=144)
    assert "has a factor that is computed from the samples" in refusal(path)


def test_a_batch_norm_of_features_channels_last(tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Transpose", "c", "t", perm=[0, 2, 3, 1]), node("Flatten", "t", "f")]
    nodes += [node("BatchNormalization", "f a1 a2 a3 a4", "n"), node("Gemm", "n h", "y", transB=1)]
    constants = {f"a{at}": np.abs(array(144)) + (at == 4) for at in (1, 2, 3, 4)}
    same(*written(tmp_path, nodes, constants | {"h": array(3, 144)}))


@pytest.mark.parametrize("to", [1, 11, 10])
def test_conversions_of_values(to, tmp_path):
    nodes = [node("Cast", "x", "s", to=to), node("Conv", "s w", "z")]
    model, path = written(tmp_path, nodes, {}, features=144)
    if to == 1:
        same(model, path)
    else:
        assert "converts to another type than float32" in refusal(path)


@pytest.mark.parametrize("kind", [6, 7, 1])
def test_a_shape_as_tf2onnx_computes_it(kind, tmp_path):
    """The open batch passes through integers of any kind, and not through floats."""
    nodes = [
        *(node("Conv", "x w", "c"), node("Shape", "c", "s"), node("Cast", "s", "i", to=kind)),
        *(node("Slice", "i from to from", "n"), node("Concat", "n rest", "t", axis=0), node("Cast", "t", "o", to=7)),
        *(node("Reshape", "c o", "f"), node("Gemm", "f h", "y", transB=1)),
    ]
    rest = np.array([144], {6: np.int32, 7: np.int64, 1: np.float32}[kind])
    ends = {"from": np.array([0]), "to": np.array([1]), "rest": rest, "h": array(3, 144)}
    model, path = written(tmp_path, nodes, ends)
    if kind == 1:
        assert "computes with the size of the batch, which is open" in refusal(path)
    else:
        same(model, path)


def test_a_relu_of_what_a_second_layer_has_read_without_it(tmp_path):
    """A single stage would give the second layer the ReLU's outputs."""
    nodes = [node("Conv", "x w b4", "c", **SAME), node("Conv", "c w1", "d", **SAME), node("Relu", "c", "r")]
    _, path = written(tmp_path, [*nodes, node("Add", "d r", "z")], {}, features=256)
    assert "follows my_Conv, which my_Conv reads without it" in refusal(path)


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


# -- what exporters write ----------------------------------------------------------------------------------------------


def test_a_ceiling_beyond_all_values_is_a_plain_relu(tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Clip", "c zero top", "z")]
    network, _ = same(*written(tmp_path, nodes, {"top": np.float32(3.4e38)}, features=144))
    assert network.layers[1] == Relu()


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("opset", "axis"), [(11, None), (13, None), (13, 1), (13, -1)])
def test_a_softmax_of_the_logits_is_left_to_the_host(kind, opset, axis, tmp_path):
    settings = {} if axis is None else {"axis": axis}
    nodes = [node("Gemm", "x g", "l", transB=1), node(kind, "l", "s", **settings), node("Identity", "s", "y")]
    _, module = same(*written(tmp_path, nodes, {"g": array(3, 6)}, (6,), opset))
    assert module.left_to_host == [{"Softmax": "softmax", "LogSoftmax": "log_softmax"}[kind]]


def test_opsets_of_one_file(tmp_path):
    model, path = written(tmp_path, [node("Conv", "x w", "z")], {}, features=144)
    model.opset_import.append(helper.make_opsetid("ai.onnx", 9))
    path.write_bytes(model.SerializeToString())
    assert re.search("has 2 opsets of ONNX's own operators", refusal(path))
