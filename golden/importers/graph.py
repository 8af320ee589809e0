"""Shared by importers of all networks: places of operators for messages, arguments of operators, and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.fx import Node

from ..errors import UserError

if TYPE_CHECKING:
    import onnx

_OF_STORAGE = frozenset(("cudnn_enable", "device", "layout", "memory_format", "non_blocking", "path", "pin_memory"))
"""Arguments of ATen that change how values are computed and stored, not which."""


@dataclass(frozen=True)
class Place:
    """Place of an operator in a user's model.

    Parameters
    ----------
    title : str
        Name of the layer in the model.
    where : str
        ``model.py:12``, or the name of the model and of the layer.
    code : str
        What stands there; may be empty.
    operator : str
        Operator of several that a line may have.
    """

    title: str
    where: str
    code: str = ""
    operator: str = ""

    def error(self, reason: str) -> UserError:
        """Make the error of this place."""
        whole = f"{self.where}: {self.operator} {reason}" if self.operator else f"{self.where}: {reason}"
        return UserError(whole + (f" ({self.code})" if self.code else ""))

    @property
    def of_layer(self) -> Place:
        """Place of the layer that is made of the operator."""
        return replace(self, operator="")


@dataclass(frozen=True, eq=False)
class Constant:
    """Tensor of a model that does not depend on the sample.

    Parameters
    ----------
    tensor : Tensor
    name : str
        Of the tensor of the model's state of which it is made; empty where there is no such one.
    """

    tensor: Tensor
    name: str = ""


def constant_of(place: Place, what: str, value: Any) -> Constant | None:
    """Argument that is a constant, or is left out."""
    if value is not None and not isinstance(value, Constant):
        raise place.error(f"has a {what} that is computed from the samples")
    return value


def needed(place: Place, what: str, value: Any) -> Constant:
    """Argument that is a constant."""
    found = constant_of(place, what, value)
    if found is None:
        raise place.error(f"has no {what}")
    return found


class Arguments(Mapping[str, Any]):
    """Arguments of an operator by name, defaults included; it notices those that nobody reads.

    Parameters
    ----------
    given : mapping of str to Any
        Arguments that are there.
    defaults : mapping of str to Any
        Values of those that may be left out and have one.
    order : sequence of str
        Names of those that have a place, by their places.
    """

    def __init__(self, given: Mapping[str, Any], defaults: Mapping[str, Any], order: Sequence[str] = ()) -> None:
        self._all = {**defaults, **given}
        self._order = order
        self._unread = {name: value for name, value in given.items() if name not in defaults or value != defaults[name]}

    def __getitem__(self, name: str) -> Any:
        self._unread.pop(name, None)
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def first(self, count: int) -> list[Any]:
        """List the first arguments by their places; None for one that is left out."""
        return [self.get(name) for name in self._order[:count]]

    def integers(self, place: Place, name: str) -> list[int]:
        """List the integers of an argument, which versions of an operator have as an attribute or as a constant."""
        given = self.get(name)
        if isinstance(given, list):
            return given
        constant = constant_of(place, name, given)
        return [] if constant is None else [int(number) for number in constant.tensor.reshape(-1)]

    def without_effect(self, *names: str) -> None:
        """Say which arguments change no value, by what the others are."""
        for name in names:
            self._unread.pop(name, None)

    def check(self, place: Place) -> None:
        """Refuse what nobody has read.

        Raises
        ------
        UserError
            With the first argument that is not its default, and that no layer here has.
        """
        for name, value in self._unread.items():
            shown = value.decode(errors="replace") if isinstance(value, bytes) else value
            raise place.error(f"has {name} = {shown!r:.60}, which is not known here: leave it at its default")


def aten_arguments(node: Node, shown: Callable[[Any], Any]) -> Arguments:
    """Arguments of an operator of ATen, each as the importer has it: `shown` of what stands in the graph."""
    schema = node.target._schema  # type: ignore[union-attr]
    order = [argument.name for argument in schema.arguments]
    defaults = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    given = {**dict(zip(order, node.args, strict=False)), **node.kwargs}
    return Arguments({name: shown(one) for name, one in given.items() if name not in _OF_STORAGE}, defaults, order)


def onnx_arguments(node: onnx.NodeProto, opset: int, shown: Callable[[str], Any] = lambda name: name) -> Arguments:
    """Attributes and inputs of a node of ONNX by the names of its version, with the defaults of the attributes.

    Inputs are as the importer has them: `shown` of their names. One that takes any number of tensors is a list.
    """
    from onnx import defs, helper

    schema = defs.get_schema(node.op_type, opset)
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    known = {name: one.default_value for name, one in schema.attributes.items()}
    defaults = {name: helper.get_attribute_value(one) for name, one in known.items() if one.type}
    order = [formal.name for formal in schema.inputs]
    inputs: dict[str, Any] = {formal: shown(name) for formal, name in zip(order, node.input, strict=False) if name}
    if schema.inputs and schema.inputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic:
        inputs[order[-1]] = [shown(name) for name in node.input[len(order) - 1 :]]
    return Arguments({**inputs, **attributes}, {**dict.fromkeys(order), **defaults}, order)


def first_line(error: Exception) -> str:
    """First line of an exception's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
