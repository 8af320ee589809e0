"""Constants computed by ONNX nodes: weights, shapes, and a size limit."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from fabtune.golden.importers import onnx_constants
from fabtune.golden.importers.layers.own_tensors import own_state
from fabtune.golden.models.stages import MOST_PARAMETERS

from ...onnx_models import CONSTANTS, array, node, refusal, same, written


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
    "shape": (
        [node("Shape", "l", "s", start=0, end=4), node("Reshape", "k s", "w")],
        {"k": array(72), "l": CONSTANTS["w"]},
    ),
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


def test_a_tensor_that_a_node_gives_keeps_its_name(tmp_path):
    value = array(4, 2, 3, 3)
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(value))
    _, module = same(*written(tmp_path, [constant, node("Conv", "x k", "z")], {}, features=144))
    np.testing.assert_array_equal(own_state(module)["k"].numpy(), value)
