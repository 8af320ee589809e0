"""Traversal of an exported program's operators, with checks and names for every kind of network."""

from __future__ import annotations

import os
import re
import sysconfig
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from ..errors import UserError
from .graph import Arguments, Place, aten_arguments

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = tuple(str(Path(__file__).parents[1] / room) + os.sep for room in ("models", "importers", "train"))
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = ("site-packages" + os.sep, "dist-packages" + os.sep)
_FRAME = re.compile(r'File "(.+?)", line (\d+), in .*\n\s*(.*)')
_CHECK = "aten._assert_tensor_metadata.default"


class ExportedGraph(ABC):
    """Traversal of an exported program's operators; a subclass imports each operator.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        Without in-place operators.
    name : str
        Origin of the module for messages.

    Attributes
    ----------
    values : dict of Node to Any
        Tensors of the program, in the subclass's form.
    """

    def __init__(self, program: ExportedProgram, name: str) -> None:
        self.program, self.name = program, name
        self.values: dict[Node, Any] = {}

    @abstractmethod
    def sample(self, node: Node) -> Any:
        """Value of the sample."""

    @abstractmethod
    def constant(self, node: Node, name: str, tensor: Tensor) -> Any:
        """Value of a tensor of the module; `name` is empty for a tensor outside the module's state."""

    @abstractmethod
    def operator(self, node: Node, title: str, place: Place) -> Any:
        """Import an operator."""

    def walk(self) -> tuple[Place, Any]:
        """Import all operators; return the output, with a place for messages."""
        self.program.graph.eliminate_dead_code()
        tensors = self._tensors()
        for node in self.program.graph.nodes:
            if node in self.values:
                continue
            if node.op == "placeholder":
                known = node.name in tensors
                self.values[node] = self.constant(node, *tensors[node.name]) if known else self.sample(node)
            elif node.op == "call_function" and (title := title_of(node)) != _CHECK:
                place = place_of(node, self.name)
                self.values[node] = self._item(node, place) if title == "getitem" else self.operator(node, title, place)
            elif node.op == "output":
                return self._output(node)
        raise AssertionError("an exported program has an output")

    def _tensors(self) -> dict[str, tuple[str, Tensor]]:
        """Tensors of the module by placeholder, each with the name in the state, if any."""
        signature, state = self.program.graph_signature, self.program.state_dict
        owned = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        tensors = {}
        for placeholder, name in {**owned, **signature.inputs_to_lifted_tensor_constants}.items():
            tensor = state[name] if name in state else self.program.constants[name]
            tensors[placeholder] = (name if placeholder in owned and name in state else "", tensor)
        return tensors

    def _item(self, node: Node, place: Place) -> Any:
        outputs, number = self.values[node.all_input_nodes[0]], int(str(node.args[1]))
        if type(outputs) is tuple:
            return outputs[number]
        if number:
            raise place.error("of a second output of an operator has no hardware")
        return outputs

    def _output(self, node: Node) -> tuple[Place, Any]:
        mutated = [spec for spec in self.program.graph_signature.output_specs if spec.kind.name != "USER_OUTPUT"]
        if mutated:
            raise UserError(f"{self.name} changes {mutated[0].target or 'its input'} when it runs")
        (outputs,) = node.args
        assert isinstance(outputs, tuple), "an exported program gives a tuple"
        return Place("output", f"{self.name}: its output"), self.argument(outputs[0])

    def given(self, node: Node) -> Arguments:
        """Arguments of an operator, with values for the tensors."""
        return aten_arguments(node, self.argument)

    def argument(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            return self.values[argument]
        return [self.argument(item) for item in argument] if isinstance(argument, list | tuple) else argument


def is_users(file: str) -> bool:
    """True if a file of a traceback is neither PyTorch's, nor Python's, nor this package's."""
    if not os.path.isfile(file) or file.startswith((_TORCH, *_OWN)):
        return False
    return not file.startswith(_STANDARD) or file[len(_STANDARD) :].startswith(_PACKAGES)


def shown(file: str) -> str:
    """Path of a file, relative if below the working directory."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def place_of(node: Node, name: str) -> Place:
    """Line of the user's file with an operator, and the layer if the line calls several.

    `name` is the module's origin for messages.
    """
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    module = re.sub(r"^L\['self'\]\.?|^L__self__\.?", "", stack[-1][0]) if stack else ""
    within = [str(frame[1]).startswith("torch.nn.") for frame in stack]
    title = module if within[-1:] == [True] and module else f"{module}.{node.name}".lstrip(".")
    frames = [frame for frame in _FRAME.findall(node.meta.get("stack_trace") or "") if is_users(frame[0])]
    plain = ".".join(title_of(node).split(".")[:2])
    if frames:
        file, line, code = frames[-1]
        nested = f", layer {module}" if within[-2:] == [True, True] else ""
        return Place(title, f"{shown(file)}:{line}{nested}", code.strip(), plain)
    return Place(title, f"{name}, layer {module or node.name}", "", plain)


def title_of(node: Node) -> str:
    """Name of an operator: ``aten.conv2d.default``."""
    return str(node.target) if isinstance(node.target, torch._ops.OpOverload) else getattr(node.target, "__name__", "?")


def shape_of(node: Node) -> tuple[int, ...]:
    """Shape of an operator's result with the batch; the first of several results."""
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, tuple | list) else value).shape)
