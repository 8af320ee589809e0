"""Yosys passes for hierarchical Verilog: remove unused ports and bits, and give plain names."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .identifiers import RESERVED, add_name

PLAIN_NAMES = "plain_names"
"""Pass: rename modules, wires and instances to plain identifiers, and order ports by name.

A module is named by its path from the top, joined with ``_``. The only remaining part of a wire has the wire's name;
several parts have their position as a suffix.
"""
SPLIT_COPIES = "split_copies"
"""Pass: split unnamed wires with bits that copy other bits, such as sign copies of a narrowed difference.

The copies are removed; simulators may report the whole wire as a loop.
"""
UNUSED_BITS = "unused_bits"
"""Pass: connect unread bits of each module's wires to a wire ``unused``, for which Verilator gives no warning.

Examples are lane padding, byte offsets of an address, identifiers, and results read in part.
"""
UNUSED_PORTS = "unused_ports"
"""Pass: remove ports of inner modules that have no reader, and the logic that drives only such ports."""

_CLOCK_AND_RESET = ("clk", "rst")
_PART = re.compile(r"(.*?) ?\[(\d+)(?::(\d+))?\]")


def _chunks(signal: Any) -> Iterator[tuple[str, int]]:
    """Name and bit mask of each wire in a signal."""
    if signal.is_chunk():  # the common case, with fewer calls into Yosys
        chunk = signal.as_chunk()
        if chunk.wire:
            yield chunk.wire.name.str(), ((1 << chunk.width) - 1) << chunk.offset
        return
    for bit in signal.bits():
        if bit.is_wire():
            yield bit.wire.name.str(), 1 << bit.offset


def _used_bits(module: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Bit masks by wire: bits that cells or connections read, and bits that they drive."""
    read: dict[str, int] = defaultdict(int)
    driven: dict[str, int] = defaultdict(int)
    for left, right in module.connections_:
        for bits, signal in ((driven, left), (read, right)):
            for name, ones in _chunks(signal):
                bits[name] |= ones
    for cell in module.cells_.values():
        for port, signal in cell.connections_.items():
            bits = driven if cell.output(port) else read
            for name, ones in _chunks(signal):
                bits[name] |= ones
    return read, driven


def _split_copies(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    wires = {
        f"{module.name.str()}/{name}"
        for module in design.modules_.values()
        for left, right in module.connections_
        for name, _ in _chunks(left)
        if name.startswith("$") and name in dict(_chunks(right))
    }
    if wires:
        ys.run_pass(f"splitnets {' '.join(sorted(wires))}", design)
        ys.run_pass("opt_clean -purge", design)


def _unused_bits(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    for module in design.modules_.values():
        read, driven = _used_bits(module)
        spare = ys.SigSpec(ys.Const(0, 1))
        wires = [wire for wire in module.wires_.values() if not wire.port_output and "unused" not in wire.name.str()]
        for wire in sorted(wires, key=lambda wire: (not wire.port_input, wire.port_id, wire.name.str())):
            name = wire.name.str()
            existing = (1 << wire.width) - 1 if wire.port_input else driven[name]
            unread = existing & ~read[name]
            for offset in range(unread.bit_length()):
                if unread >> offset & 1:
                    spare.append(ys.SigSpec(wire).extract(offset, 1))
        if spare.size() > 1:
            module.addReduceAnd(
                ys.IdString("$unused"), spare, ys.SigSpec(module.addWire(module.uniquify(ys.IdString("\\unused")), 1))
            )


def _unused_ports(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    modules = {module.name.str(): module for module in design.modules_.values()}
    reads: dict[str, dict[str, int]] = {}
    changed = set(modules)
    while changed:
        reads |= {name: _used_bits(modules[name])[0] for name in changed}
        changed = set()
        for name, module in modules.items():
            for cell in [candidate for candidate in module.cells_.values() if candidate.type.str() in modules]:
                inner = cell.type.str()
                if spare := _spare_ports(cell, modules[inner], reads[inner], module, reads[name]):
                    changed |= {name, inner}
                for port in spare:
                    wire = modules[inner].wire(port)
                    if wire.port_input:  # a reset tree's leaf without loads is dropped
                        wire.set_bool_attribute(ys.IdString("\\keep"), False)
                    wire.port_input = wire.port_output = False
                    cell.unsetPort(port)
        for name in changed:
            modules[name].fixup_ports()
        if changed:
            ys.run_pass(f"opt_clean -purge {' '.join(sorted(changed))}", design)


def _spare_ports(
    cell: Any, inner: Any, read_inside: dict[str, int], outer: Any, read_outside: dict[str, int]
) -> list[Any]:
    """Ports of an instance without readers: for an input inside, for an output outside."""
    from pyosys import libyosys as ys

    spare = []
    for port, signal in cell.connections_.items():
        if inner.wire(port).port_input:
            used = bool(read_inside.get(port.str()))
        else:
            used = any(
                ones & read_outside.get(name, 0) or outer.wire(ys.IdString(name)).port_output
                for name, ones in _chunks(signal)
            )
        if not used:
            spare.append(port)
    return spare


def _plain_names(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    top = design.top_module().name.str()
    names = sorted((module.name.str() for module in design.modules_.values()), key=lambda name: (name != top, name))
    assigned: set[str] = set()
    modules = {name: f"\\{add_name(assigned, _plain(name))}" for name in names}
    ports = {}
    for name in modules:
        ports[name] = _rename(design.module(ys.IdString(name)), name == top)
    for module in list(design.modules_.values()):
        for cell in module.cells_.values():
            renamed = ports.get(cell.type.str())
            if renamed is None:
                continue
            for before in [name for port in cell.connections_ if (name := port.str()) in renamed]:
                signal = cell.getPort(ys.IdString(before))
                cell.setPort(ys.IdString(renamed[before]), signal.extract(0, signal.size()))
                cell.unsetPort(ys.IdString(before))
            cell.type = ys.IdString(modules[cell.type.str()])
    for before, after in modules.items():
        if before != after:
            design.rename(design.module(ys.IdString(before)), ys.IdString(after))


def _rename(module: Any, is_top: bool) -> dict[str, str]:
    """Rename the wires and instances of a module; returns the new name of each old name."""
    from pyosys import libyosys as ys

    objects = {item.name.str(): item for item in [*module.wires_.values(), *module.cells_.values()]}
    names = sorted((name for name in objects if name[0] == "\\"), key=_natural)
    plain = {name for name in names if _plain(name) == name[1:]}
    parts = Counter(part[1] for name in names if (part := _PART.fullmatch(name)))
    assigned = {memory.name.str()[1:] for memory in module.memories.values()} | {name[1:] for name in plain}
    renamed = {}
    for name in names:
        if name not in plain:
            part = _PART.fullmatch(name)
            whole = _plain(part[1] if part and parts[part[1]] == 1 else name)
            renamed[name] = f"\\{add_name(assigned, whole)}"
            module.rename(objects[name], ys.IdString(renamed[name]))
    for wire in module.wires_.values():
        wire.start_offset = 0  # else the wire keeps the offset that it had in the split wire
    if not is_top:
        _order_ports(module)
    module.fixup_ports()
    return renamed


def _order_ports(module: Any) -> None:
    """Put clock and reset first, then the ports by name."""
    ports = [wire for wire in module.wires_.values() if wire.port_id]
    names = {wire.name.str()[1:]: wire for wire in ports}
    first = [name for name in _CLOCK_AND_RESET if name in names]
    for position, name in enumerate([*first, *sorted(names.keys() - first, key=_natural)], 1):
        names[name].port_id = position


def _natural(name: str) -> list[Any]:
    """Sort key with 2 before 10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _plain(name: str) -> str:
    """Plain identifier of a Yosys name."""
    # without leading underscores, as Verilator omits such signals from waveforms
    identifier = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return (
        f"{identifier}_"
        if identifier in RESERVED or not identifier
        else f"_{identifier}"
        if identifier[0].isdigit()
        else identifier
    )


PASSES: dict[str, Callable[[Any, list[str]], None]] = {
    PLAIN_NAMES: _plain_names,
    SPLIT_COPIES: _split_copies,
    UNUSED_BITS: _unused_bits,
    UNUSED_PORTS: _unused_ports,
}
"""Passes by name; arguments are the design and the words after the name."""
