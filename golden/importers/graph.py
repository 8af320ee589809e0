"""Shared by all importers: places of operators for messages, arguments of operators, and constants."""

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
"""Arguments of ATen that affect computation and storage, but not the values."""


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
        Source text of the line; may be empty.
    operator : str
        The operator, if the line has several.
    """

    title: str
    where: str
    code: str = ""
    operator: str = ""

    def error(self, reason: str) -> UserError:
        message = f"{self.where}: {self.operator} {reason}" if self.operator else f"{self.where}: {reason}"
        return UserError(message + (f" ({self.code})" if self.code else ""))

    @property
    def of_layer(self) -> Place:
        """Place of the whole layer."""
        return replace(self, operator="")


@dataclass(frozen=True, eq=False)
class Constant:
    """Tensor of a model, independent of the sample.

    `name` is the source tensor in the model's state; empty for none.
    """

    tensor: Tensor
    name: str = ""


def constant_of(place: Place, what: str, value: Any) -> Constant | None:
    """Constant argument; None if omitted."""
    if value is not None and not isinstance(value, Constant):
        raise place.error(f"has a {what} that is computed from the samples")
    return value


def needed(place: Place, what: str, value: Any) -> Constant:
    """Required constant argument."""
    constant = constant_of(place, what, value)
    if constant is None:
        raise place.error(f"has no {what}")
    return constant


class Arguments(Mapping[str, Any]):
    """Arguments of an operator by name, with a record of unread arguments.

    Parameters
    ----------
    given : mapping of str to Any
        Explicit arguments.
    defaults : mapping of str to Any
        Default values of optional arguments.
    order : sequence of str
        Names of the positional arguments, in order.
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
        """The first positional arguments; None if omitted."""
        return [self.get(name) for name in self._order[:count]]

    def integers(self, place: Place, name: str) -> list[int]:
        """Integers of an argument: an attribute or a constant, depending on the operator's version."""
        value = self.get(name)
        if isinstance(value, list):
            return value
        constant = constant_of(place, name, value)
        return [] if constant is None else [int(number) for number in constant.tensor.reshape(-1)]

    def without_effect(self, *names: str) -> None:
        """Accept arguments without effect, given the others."""
        for name in names:
            self._unread.pop(name, None)

    def check(self, place: Place) -> None:
        """Refuse unread explicit arguments.

        Raises
        ------
        UserError
            Names the first unread argument.
        """
        for name, value in self._unread.items():
            shown = value.decode(errors="replace") if isinstance(value, bytes) else value
            raise place.error(f"has {name} = {shown!r:.60}, which is not known here: leave it at its default")


def aten_arguments(node: Node, shown: Callable[[Any], Any]) -> Arguments:
    """Arguments of an ATen operator, each converted by `shown` from the graph's form."""
    schema = node.target._schema  # type: ignore[union-attr]
    order = [argument.name for argument in schema.arguments]
    defaults = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    explicit = {**dict(zip(order, node.args, strict=False)), **node.kwargs}
    return Arguments(
        {name: shown(value) for name, value in explicit.items() if name not in _OF_STORAGE}, defaults, order
    )


def onnx_arguments(node: onnx.NodeProto, opset: int, shown: Callable[[str], Any] = lambda name: name) -> Arguments:
    """Attributes and inputs of an ONNX node by the names of the opset, with defaults of the attributes.

    `shown` converts the name of each input. Variadic inputs are a list.
    """
    from onnx import defs, helper

    schema = defs.get_schema(node.op_type, opset)
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    known = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    defaults = {name: helper.get_attribute_value(attribute) for name, attribute in known.items() if attribute.type}
    order = [formal.name for formal in schema.inputs]
    inputs: dict[str, Any] = {formal: shown(name) for formal, name in zip(order, node.input, strict=False) if name}
    if schema.inputs and schema.inputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic:
        inputs[order[-1]] = [shown(name) for name in node.input[len(order) - 1 :]]
    return Arguments({**inputs, **attributes}, {**dict.fromkeys(order), **defaults}, order)


def first_line(error: Exception) -> str:
    """First line of an exception's message, at most 200 characters."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
