"""ONNX file of a tuned network: the whole graph, batch norm folded, with the adapters in it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ...files import whole
from ...models.layers import BatchNorm, Convolution, Depthwise, Layer, Linear, Weighted, onnx_pads
from ...models.names import unused
from .network import TunedNetwork

if TYPE_CHECKING:
    import onnx

OPSET = 17
"""Version of the operators: all of today's runtimes read it."""
IR_VERSION = 8
"""Version of the file format, released with this opset."""


def need_onnx() -> None:
    """Raise `UserError` if the package onnx is missing."""
    if find_spec("onnx") is None:
        raise UserError("--to onnx needs the package onnx: pip install 'fabtune[onnx]'")


def save_onnx(tuned: TunedNetwork, path: Path) -> None:
    with whole(path) as temporary:
        temporary.write_bytes(model_of(tuned).SerializeToString(deterministic=True))


def model_of(tuned: TunedNetwork) -> onnx.ModelProto:
    """ONNX model: ``input`` (batch, ...), ``logits`` (batch, classes), and parameters by the user's names.

    A parameter named ``input`` or ``logits`` gets a number after its name.
    """
    from onnx import TensorProto, checker, helper

    writer = _Writer(tuned.merged())
    shape: list[str | int | None] = ["batch", *tuned.network.input_shape]
    graph = helper.make_graph(
        writer.nodes,
        "tuned",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", tuned.network.classes])],
        writer.tensors,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    model.producer_name = "fabtune"
    checker.check_model(model)
    return model


class _Writer:
    """Nodes and initializers of a network with merged adapters."""

    def __init__(self, tuned: TunedNetwork) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self._tuned, self._stages = tuned, tuned.network.stages
        self._names = {"input", "logits"}
        stages, adapters = tuned.stages, tuned.adapters
        own = [name for one in stages for name in (one.weight_name, one.bias_name)]
        own += [f"{stages[one.stage].title}.lora_{name}" for one in adapters for name in "ab"]
        # the user's own names come first
        self._own = {name: self._unused(name) for name in own}
        self._numbers = tuned.network.weighted
        # names of the sample and of all layers' outputs
        names = ["input"]
        for number, (layer, read) in enumerate(zip(tuned.network.layers, tuned.network.reads, strict=True)):
            inputs = [names[at + 1] for at in read]
            names.append(self._layer(number, layer, inputs))
        logits = names[-1]
        for one in tuned.adapters:
            if one.skips:
                source = names[tuned.network.reads[self._numbers[one.stage]][0] + 1]
                logits = self.node("Add", [logits, self._adapter(one.stage, source)], f"with_adapter_{one.stage}")
        self.nodes.append(self._made("Identity", [logits], "logits"))

    def _layer(self, number: int, layer: Layer, inputs: list[str]) -> str:
        """Write a layer; return the name of its output."""
        if isinstance(layer, Weighted):
            return self._weighted(self._numbers.index(number), layer, inputs, f"layer_{number}")
        assert not isinstance(layer, BatchNorm), "folded"
        return layer.write_onnx(self, inputs, number)

    def _weighted(self, stage: int, layer: Weighted, inputs: list[str], output: str) -> str:
        """Write a layer with weights and its parallel adapter; return the name of the output."""
        names, folded, shapes = self._tuned.stages[stage], self._tuned.parameters[stage], self._stages[stage]
        bias = self._parameter(names.bias_name, folded.bias.astype(np.float32))
        if isinstance(layer, Linear):
            weight = self._parameter(names.weight_name, folded.weight.astype(np.float32))
            result = self.node("Gemm", [*inputs, weight, bias], output, transB=1)
        elif len(shapes.computed_shape) == 1:  # a factor and a bias for each feature
            weight = self._parameter(names.weight_name, folded.weight.reshape(-1).astype(np.float32))
            scaled = self.node("Mul", [*inputs, weight], f"{output}_scaled")
            result = self.node("Add", [scaled, bias], output)
        else:
            assert isinstance(layer, Convolution | Depthwise)
            weight = self._parameter(names.weight_name, folded.weight.astype(np.float32))
            groups = shapes.biases if isinstance(layer, Depthwise) else layer.groups
            window = {"kernel_shape": layer.kernel, "strides": layer.stride, "pads": onnx_pads(layer.padding)}
            result = self.node("Conv", [*inputs, weight, bias], output, group=groups, **window)
        if not any(other.stage == stage and not other.skips for other in self._tuned.adapters):
            return result
        flat = self._adapter(stage, inputs[0])
        shape = self.tensor(f"shape_{stage}", np.array([-1, *shapes.computed_shape], np.int64))
        adapter = self.node("Reshape", [flat, shape], f"adapter_{stage}_map")
        return self.node("Add", [result, adapter], f"{output}_tuned")

    def _adapter(self, stage: int, source: str) -> str:
        """Write the adapter of a stage, which reads a tensor."""
        (adapter,) = (other for other in self._tuned.adapters if other.stage == stage)
        title = self._tuned.stages[stage].title
        a, b = (self._parameter(f"{title}.lora_{name}", getattr(adapter, name).astype(np.float32)) for name in "ab")
        flat = self.node("Flatten", [source], f"adapter_{stage}_input", axis=1)
        hidden = self.node("Gemm", [flat, a], f"adapter_{stage}_hidden", transB=1)
        return self.node("Gemm", [hidden, b], f"adapter_{stage}", transB=1)

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Write a node; return the name of its output, changed if a tensor of the user's has the name."""
        output = self._unused(output)
        self.nodes.append(self._made(kind, inputs, output, **attributes))
        return output

    def _made(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
        from onnx import helper

        lists: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()
        }
        return helper.make_node(kind, inputs, [output], output, **lists)

    def _parameter(self, name: str, values: NDArray[Any]) -> str:
        return self._written(self._own[name], values)

    def tensor(self, name: str, values: NDArray[Any]) -> str:
        return self._written(self._unused(name), values)

    def _written(self, name: str, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _unused(self, name: str) -> str:
        self._names.add(free := unused(name, self._names))
        return free
