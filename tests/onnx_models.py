"""ONNX models built node by node, and their onnxruntime outputs."""

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.network import onnx_network

RNG = np.random.default_rng(0)


def array(*shape, scale=0.3):
    return RNG.normal(0, scale, shape).astype(np.float32)


def model_of(nodes, constants=None, shape=("batch", 2, 8, 8), opset=20, domains=(), outputs=("y",)):
    """A model with input x; constants are arrays by name."""
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, given, tensors)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def node(kind, inputs, output="y", **attributes):
    return helper.make_node(kind, inputs.split(), output.split(), name=f"my_{kind}", **attributes)


def head(features, source="v"):
    """Flatten and a linear layer; its constants."""
    nodes = [node("Flatten", source, "flat"), node("Gemm", "flat hw hb", "y", transB=1)]
    return nodes, {"hw": array(3, features), "hb": array(3)}


def outputs_of(model, *inputs):
    """All outputs of a model by onnxruntime, without graph optimisation, inputs in model order."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    copy = type(model)()
    copy.CopyFrom(model)
    for one in copy.graph.node:
        one.name = ""  # node names must be unique or empty
    session = onnxruntime.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {one.name: given for one, given in zip(session.get_inputs(), inputs, strict=True)})


CONSTANTS = {
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
"""Settings of a size-preserving 3 x 3 convolution."""


def tail(source, features, weight="hw"):
    """Flatten and a linear layer."""
    return [node("Flatten", source, "flat"), node("Gemm", f"flat {weight}", "y", transB=1)], {"hw": array(3, features)}


def written(path, nodes, constants, shape=(2, 8, 8), opset=20, features=None, source="z"):
    """A file of nodes, followed by flatten and a linear layer if the number of features is given."""
    more, weights = tail(source, features) if features else ([], {})
    used = {name for one in (*nodes, *more) for name in one.input}
    kept = {name: value for name, value in {**CONSTANTS, **weights, **constants}.items() if name in used}
    model = model_of([*nodes, *more], kept, ("n", *shape), opset)
    (path / "model.onnx").write_bytes(model.SerializeToString())
    return model, path / "model.onnx"


def same(model, path, turned=None):
    """Import a file and compare it with onnxruntime; sample axes are permuted by `turned`."""
    network, module = onnx_network(path)
    (sample,) = (one for one in model.graph.input if one.name == "x")
    batch, *shape = [one.dim_value for one in sample.type.tensor_type.shape.dim]
    batch = batch or 3
    x = np.random.default_rng(1).normal(0, 1, (batch, *network.input_shape)).astype(np.float32)
    given = x if turned is None else x.transpose(0, *turned)
    (expected,) = outputs_of(model, given.reshape(batch, *shape))
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
