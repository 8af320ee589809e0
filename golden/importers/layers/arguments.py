"""Arguments and attributes of an operator: one that its importer does not read has its default, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from .graph import Place
from .onnx_constants import attributes

if TYPE_CHECKING:
    import onnx

_OF_STORAGE = frozenset(("cudnn_enable", "device", "layout", "memory_format", "non_blocking", "path", "pin_memory"))
"""Arguments of ATen that change how values are computed and stored, not which."""


class Arguments(Mapping[str, Any]):
    """Arguments of an operator by name, defaults included; it notices those that nobody reads.

    Parameters
    ----------
    given : mapping of str to Any
        Arguments that are there.
    defaults : mapping of str to Any
        Values of those that may be left out and have one.
    """

    def __init__(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self._all = {**defaults, **given}
        self._unread = {name: value for name, value in given.items() if name not in defaults or value != defaults[name]}

    def __getitem__(self, name: str) -> Any:
        self._unread.pop(name, None)
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

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
    defaults = {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
    given = {**dict(zip((one.name for one in schema.arguments), node.args, strict=False)), **node.kwargs}
    return Arguments({name: shown(one) for name, one in given.items() if name not in _OF_STORAGE}, defaults)


def onnx_arguments(node: onnx.NodeProto, opset: int) -> Arguments:
    """Attributes of a node of ONNX, with the defaults of its version."""
    from onnx import defs, helper

    schema = defs.get_schema(node.op_type, opset)
    known = {name: one.default_value for name, one in schema.attributes.items()}
    defaults = {name: helper.get_attribute_value(one) for name, one in known.items() if one.type}
    return Arguments(attributes(node), defaults)
