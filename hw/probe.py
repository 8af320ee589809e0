"""Probes: internal values of a component that its proof rules read by name, without cost in the netlist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from amaranth.hdl import Elaboratable, Value, ValueLike


class Probe:
    """Internal values of a component, as attributes.

    Raises
    ------
    AttributeError
        For an unknown value or state; the message lists the known names.
    """

    def __init__(self, component: Elaboratable) -> None:
        self._component = type(component).__name__
        self._fsm: Any = None

    def __getattr__(self, name: str) -> Any:
        raise self._missing("value", name, [shown for shown in vars(self) if not shown.startswith("_")])

    def state(self, name: str) -> Value:
        """High while the component's state machine is in a state."""
        if name not in (states := self._fsm.encoding if self._fsm else ()):
            raise self._missing("state", name, states)
        return self._fsm.ongoing(name)

    def _missing(self, kind: str, name: str, shown: Iterable[str]) -> AttributeError:
        return AttributeError(
            f"{self._component} shows no {kind} {name!r}, but {', '.join(shown) or 'none'}: see hw/probe.py"
        )


def probe(component: Elaboratable, fsm: Any = None, **values: ValueLike | Sequence[ValueLike]) -> None:
    """Expose values and a state machine's states to proof rules; each method of `elaborate` may call it."""
    inside = vars(vars(component).setdefault("probe", Probe(component)))
    inside.update(values, _fsm=fsm or inside["_fsm"])
