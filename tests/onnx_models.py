"""Models of ONNX made node by node, and what onnxruntime gives for them."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)


def array(*shape, scale=0.3):
    return RNG.normal(0, scale, shape).astype(np.float32)


def model_of(nodes, constants=None, shape=("batch", 2, 8, 8), opset=20, domains=(), outputs=("y",)):
    """A model whose input is x; constants are arrays by name."""
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
    """All outputs of a model by onnxruntime, as its nodes stand, with the inputs in their order."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    copy = type(model)()
    copy.CopyFrom(model)
    for one in copy.graph.node:
        one.name = ""  # it takes each name once only, or none
    session = onnxruntime.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {one.name: given for one, given in zip(session.get_inputs(), inputs, strict=True)})
