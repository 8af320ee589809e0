"""Unread arguments must have their default, or are refused by name."""

import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.importers.graph import Arguments, Place, aten_arguments, onnx_arguments

onnx = pytest.importorskip("onnx")
PLACE = Place("one", "model.py:7")


def test_what_is_read_or_has_its_default_passes():
    given = Arguments({"scale": 2.0, "axis": 1, "p": 0.5}, {"axis": 1, "eps": 1e-5})
    assert (given["scale"], given["eps"], given.get("other", 3)) == (2.0, 1e-5, 3)
    assert set(given) == {"scale", "axis", "p", "eps"}
    assert len(given) == 4
    given.without_effect("p")
    given.check(PLACE)


def test_what_nobody_reads_is_refused():
    given = Arguments({"scale": 2.0, "mode": b"up"}, {"scale": 1.0, "mode": b"down"})
    assert given["scale"] == 2
    with pytest.raises(
        UserError, match=r"^model\.py:7: has mode = 'up', which is not known here: leave it at its default$"
    ):
        given.check(PLACE)


def test_defaults_are_those_of_the_version_of_a_node():
    node = onnx.helper.make_node("Softmax", ["x"], ["y"])
    assert [onnx_arguments(node, opset)["axis"] for opset in (11, 13)] == [1, -1]
    node = onnx.helper.make_node("Swish", ["x"], ["y"], alpha=1.0)
    given = onnx_arguments(node, 24)
    assert given.first(1) == ["x"]
    given.check(PLACE)
    node = onnx.helper.make_node("Attention", ["q", "k", "v"], ["y"], softmax_precision=16)
    given = onnx_arguments(node, 23)
    assert given.first(4) == ["q", "k", "v", None]
    with pytest.raises(UserError, match="has softmax_precision = 16"):
        given.check(PLACE)


def test_arguments_of_aten_have_the_defaults_of_their_schema():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    for settings, reason in (({}, ""), ({"alpha": 2}, "alpha = 2")):
        node = graph.call_function(torch.ops.aten.add.Tensor, (x, x), settings)
        given = aten_arguments(node, lambda one: one)
        assert (given["self"], given["other"]) == (x, x)
        if reason:
            with pytest.raises(UserError, match=reason):
                given.check(PLACE)
        else:
            given.check(PLACE)
    weight = nn.Parameter(torch.ones(4))
    norm = graph.call_function(torch.ops.aten.layer_norm.default, (x, [4], weight, None, 1e-5, False))
    given = aten_arguments(norm, lambda one: one)
    assert [given[name] for name in ("input", "normalized_shape", "weight")] == [x, [4], weight]
    # a library's implementation choice changes no value
    given.check(PLACE)
