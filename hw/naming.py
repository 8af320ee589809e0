"""Stable names in the emitted RTLIL: a change of other code does not change them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Fragment, Signal, Value
from amaranth.hdl import _ir as ir
from amaranth.hdl._ast import SignalSet
from amaranth.lib import wiring

from .identifiers import add_name
from .source_names import names_from_source, replaced


def convert(component: wiring.Component, name: str, platform: object, emit_src: bool = False) -> str:
    """Convert a design to RTLIL like `amaranth.back.rtlil.convert`, with stable names.

    Equal names in a module are numbered from 1, where Amaranth uses the count of all earlier names. A register keeps
    the name of its own signal, where Amaranth uses the first connected signal.

    Parameters
    ----------
    component : Component
        The design; its ports are plain signals.
    platform : object
        Argument of `elaborate`.
    emit_src : bool
        Add Python source lines as attributes.
    """
    ports = {
        member: (
            Value.cast(getattr(component, member)),
            ir.PortDirection.Input if port.flow is wiring.In else ir.PortDirection.Output,
        )
        for member, port in component.signature.members.items()
    }
    with replaced(ir, "_add_name", add_name), names_from_source():
        design = Fragment.get(component, platform).prepare(ports, hierarchy=(name,))
    with _names_of_registers(_registers(design)), _named_ports():
        text: str = rtlil.convert_fragment(design, name=name, emit_src=emit_src)[0]
    return text


def _registers(design: Any) -> Any:
    registers = SignalSet()
    for fragment in design.fragments:
        for domain, statements in fragment.statements.items():
            if domain != "comb":
                for statement in statements:
                    registers.update(statement._lhs_signals())
    return registers


def _names_of_registers(registers: Any) -> AbstractContextManager[None]:
    original = rtlil.ModuleEmitter.assign_value_names

    def assign_value_names(self: Any) -> None:
        for signal, name in self.module.signal_names.items():
            if signal in registers and _is_named(signal):
                self.value_names.setdefault(self.netlist.signals[signal], name)
        original(self)

    return replaced(rtlil.ModuleEmitter, "assign_value_names", assign_value_names)


def _named_ports() -> AbstractContextManager[None]:
    """Name a port that carries part of a signal by the signal and the bit range, equally in all modules."""
    original = ir._compute_ports

    def compute_ports(netlist: Any) -> None:
        original(netlist)
        places = _places(netlist)
        for module in netlist.modules:
            assigned = {*module.signal_names.values(), *module.ports, *module.io_ports}
            assigned |= {netlist.modules[index].name[-1] for index in module.submodules}
            assigned |= {netlist.cells[index].name for index in module.cells if hasattr(netlist.cells[index], "name")}
            ports = {
                add_name(assigned, _part_name(value, places)) if name.startswith("port$") else name: (value, flow)
                for name, (value, flow) in module.ports.items()
            }
            module.ports.clear()
            module.ports.update(ports)

    return replaced(ir, "_compute_ports", compute_ports)


def _places(netlist: Any) -> dict[Any, list[tuple[str, Any, int]]]:
    """For each net, the signals that contain it: name, value, bit position; the driving module's signals come first."""
    places: dict[Any, list[tuple[str, Any, int]]] = defaultdict(list)
    wanted = {value[0] for module in netlist.modules for name, (value, _) in module.ports.items() if "port$" in name}
    for local in (True, False):
        for number, module in enumerate(netlist.modules):
            for signal, name in module.signal_names.items():
                value = netlist.signals[signal]
                for position, net in enumerate(value):
                    if net in wanted and _is_named(signal) and local == (netlist.cells[net.cell].module_idx == number):
                        places[net].append((name, value, position))
    return places


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
