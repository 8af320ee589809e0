"""Passes that Yosys lacks for a text with the hierarchy of the source: ports that are used, and plain names."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .identifiers import RESERVED, add_name

PLAIN_NAMES = "plain_names"
"""Pass: give modules, wires and instances names that are plain identifiers, and order the ports by name.

A module is called by its path, with ``_`` between the levels, which begins with the top's name. Of a wire of which one
part is left, that part has the wire's name; of several, each has its place behind the name.
"""
SPLIT_COPIES = "split_copies"
"""Pass: split unnamed wires of which some bits are copies of others, such as the upper ones of a narrowed difference.

The copies go; a simulator could take the wire as a whole for a loop.
"""
UNUSED_BITS = "unused_bits"
"""Pass: connect the bits of each module's wires that nothing reads to a wire called ``unused``.

Such bits of inputs pad a lane, or are an address within a word or an identifier; others are bits of a result that is
read in part. Verilator does not warn of a wire of that name.
"""
UNUSED_PORTS = "unused_ports"
"""Pass: take away the ports of inner modules that nothing reads inside, or outside, and what was there for them."""

_CLOCK_AND_RESET = ("clk", "rst")
_PART = re.compile(r"(.*?) ?\[(\d+)(?::(\d+))?\]")


def _chunks(signal: Any) -> Iterator[tuple[str, int]]:
    """Name of each wire that a signal has bits of, and a number whose ones are their offsets."""
    if signal.is_chunk():  # most are one: fewer calls into Yosys
        chunk = signal.as_chunk()
        if chunk.wire:
            yield chunk.wire.name.str(), ((1 << chunk.width) - 1) << chunk.offset
        return
    for bit in signal.bits():
        if bit.is_wire():
            yield bit.wire.name.str(), 1 << bit.offset


def _used_bits(module: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Bits of wires that cells or connections read, and those that they drive, as ones of a number for each wire."""
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

    found = {
        f"{module.name.str()}/{name}"
        for module in design.modules_.values()
        for left, right in module.connections_
        for name, _ in _chunks(left)
        if name.startswith("$") and name in dict(_chunks(right))
    }
    if found:
        ys.run_pass(f"splitnets {' '.join(sorted(found))}", design)
        ys.run_pass("opt_clean -purge", design)


def _unused_bits(design: Any, _: list[str]) -> None:
    from pyosys import libyosys as ys

    for module in design.modules_.values():
        read, driven = _used_bits(module)
        spare = ys.SigSpec(ys.Const(0, 1))
        wires = [wire for wire in module.wires_.values() if not wire.port_output and "unused" not in wire.name.str()]
        for wire in sorted(wires, key=lambda wire: (not wire.port_input, wire.port_id, wire.name.str())):
            name = wire.name.str()
            given = (1 << wire.width) - 1 if wire.port_input else driven[name]
            unread = given & ~read[name]
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
            for cell in [one for one in module.cells_.values() if one.type.str() in modules]:
                inner = cell.type.str()
                if spare := _spare_ports(cell, modules[inner], reads[inner], module, reads[name]):
                    changed |= {name, inner}
                for port in spare:
                    wire = modules[inner].wire(port)
                    if wire.port_input:  # a leaf of a reset tree, whose registers nothing reads, is not kept
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
    """List the ports of an instance that nothing reads: inputs inside, outputs outside."""
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
    """Rename the wires and instances of a module, and tell the new names by the old."""
    from pyosys import libyosys as ys

    found = {one.name.str(): one for one in [*module.wires_.values(), *module.cells_.values()]}
    names = sorted((name for name in found if name[0] == "\\"), key=_natural)
    plain = {name for name in names if _plain(name) == name[1:]}
    parts = Counter(part[1] for name in names if (part := _PART.fullmatch(name)))
    assigned = {memory.name.str()[1:] for memory in module.memories.values()} | {name[1:] for name in plain}
    renamed = {}
    for name in names:
        if name not in plain:
            part = _PART.fullmatch(name)
            whole = _plain(part[1] if part and parts[part[1]] == 1 else name)
            renamed[name] = f"\\{add_name(assigned, whole)}"
            module.rename(found[name], ys.IdString(renamed[name]))
    for wire in module.wires_.values():
        wire.start_offset = 0  # of a part of another wire, its place there
    if not is_top:
        _order_ports(module)
    module.fixup_ports()
    return renamed


def _order_ports(module: Any) -> None:
    """Put clock and reset first, then the ports by name."""
    ports = [wire for wire in module.wires_.values() if wire.port_id]
    names = {wire.name.str()[1:]: wire for wire in ports}
    first = [name for name in _CLOCK_AND_RESET if name in names]
    for place, name in enumerate([*first, *sorted(names.keys() - first, key=_natural)], 1):
        names[name].port_id = place


def _natural(name: str) -> list[Any]:
    """Order in which 2 is before 10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _plain(name: str) -> str:
    """Make a plain identifier of a name of Yosys."""
    # without the underscore of a private attribute, too, whose waveform Verilator would leave out
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return f"{found}_" if found in RESERVED or not found else f"_{found}" if found[0].isdigit() else found


PASSES: dict[str, Callable[[Any, list[str]], None]] = {
    PLAIN_NAMES: _plain_names,
    SPLIT_COPIES: _split_copies,
    UNUSED_BITS: _unused_bits,
    UNUSED_PORTS: _unused_ports,
}
"""The passes, by name; each gets the design and its arguments."""
