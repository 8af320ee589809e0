"""Names in the emitted text that follow from the source alone, and not from what else is around them."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Fragment, Signal, Value
from amaranth.hdl import _ir as ir
from amaranth.hdl._ast import SignalSet
from amaranth.lib import wiring

from .identifiers import add_name
from .source_names import names_from_source


def convert(component: wiring.Component, name: str, platform: object, emit_src: bool = False) -> str:
    """Convert a design to RTLIL as `amaranth.back.rtlil.convert` does, with other names where several would be equal.

    Amaranth numbers equal names of a module by how many names there are before them, and calls a register as the first
    signal that is connected to it. Here they are numbered from 1 on, and a register has the name of its own signal.

    Parameters
    ----------
    component : Component
        The design; its ports are plain signals.
    name : str
        Name of the top module.
    platform : object
        What `elaborate` gets.
    emit_src : bool
        Whether the text says which lines of Python made what.
    """
    ports = {
        member: (
            Value.cast(getattr(component, member)),
            ir.PortDirection.Input if one.flow is wiring.In else ir.PortDirection.Output,
        )
        for member, one in component.signature.members.items()
    }
    with _counted_names(), names_from_source():
        design = Fragment.get(component, platform).prepare(ports, hierarchy=(name,))
    with _names_of_registers(_registers(design)), _named_ports():
        text: str = rtlil.convert_fragment(design, name=name, emit_src=emit_src)[0]
    return text


@contextlib.contextmanager
def _counted_names() -> Iterator[None]:
    original = ir._add_name
    ir._add_name = add_name
    try:
        yield
    finally:
        ir._add_name = original


def _registers(design: Any) -> Any:
    """Collect the signals that change with a clock."""
    found = SignalSet()
    for fragment in design.fragments:
        for domain, statements in fragment.statements.items():
            if domain != "comb":
                for statement in statements:
                    found.update(statement._lhs_signals())
    return found


@contextlib.contextmanager
def _names_of_registers(registers: Any) -> Iterator[None]:
    original = rtlil.ModuleEmitter.assign_value_names

    def assign_value_names(self: Any) -> None:
        for signal, name in self.module.signal_names.items():
            if signal in registers and _is_named(signal):
                self.value_names.setdefault(self.netlist.signals[signal], name)
        original(self)

    rtlil.ModuleEmitter.assign_value_names = assign_value_names
    try:
        yield
    finally:
        rtlil.ModuleEmitter.assign_value_names = original


@contextlib.contextmanager
def _named_ports() -> Iterator[None]:
    """Name the ports that carry a part of a signal by that signal and the part's place, in all modules alike."""
    original = ir._compute_ports

    def compute_ports(netlist: Any) -> None:
        original(netlist)
        places = _places(netlist)
        for module in netlist.modules:
            assigned = {*module.signal_names.values(), *module.ports, *module.io_ports}
            assigned |= {netlist.modules[one].name[-1] for one in module.submodules}
            assigned |= {netlist.cells[one].name for one in module.cells if hasattr(netlist.cells[one], "name")}
            ports = {
                add_name(assigned, _part_name(value, places)) if name.startswith("port$") else name: (value, flow)
                for name, (value, flow) in module.ports.items()
            }
            module.ports.clear()
            module.ports.update(ports)

    ir._compute_ports = compute_ports
    try:
        yield
    finally:
        ir._compute_ports = original


def _places(netlist: Any) -> dict[Any, list[tuple[str, Any, int]]]:
    """Find the signals with a net, by the net: name, value and the net's place in it; those of its own module first."""
    found: dict[Any, list[tuple[str, Any, int]]] = defaultdict(list)
    wanted = {value[0] for module in netlist.modules for name, (value, _) in module.ports.items() if "port$" in name}
    for own in (True, False):
        for number, module in enumerate(netlist.modules):
            for signal, name in module.signal_names.items():
                value = netlist.signals[signal]
                for place, net in enumerate(value):
                    if net in wanted and _is_named(signal) and own == (netlist.cells[net.cell].module_idx == number):
                        found[net].append((name, value, place))
    return found


def _part_name(value: Any, places: Mapping[Any, Sequence[tuple[str, Any, int]]]) -> str:
    for name, whole, first in places.get(value[0], ()):
        last = first + len(value) - 1
        if tuple(whole[first : last + 1]) == tuple(value):
            if len(whole) == len(value):
                return name
            return f"{name}_{last}" if first == last else f"{name}_{last}_{first}"
    return "port"


def _is_named(signal: Signal) -> bool:
    return not signal.name.startswith("$")
