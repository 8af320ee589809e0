"""Netlists of primitives, as Yosys writes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ...golden.errors import UserError

_EDGES = {"P": "", "N": "_1"}
_SETS = (("0", "FDRE", "R"), ("1", "FDSE", "S")), (("0", "FDCE", "CLR"), ("1", "FDPE", "PRE"))
# Yosys's registers and latches: primitive and pin names on the device
_REGISTERS = {
    f"$_{kind}_{clock}P{value}P_": (f"{primitive}{edge}", {"E": "CE", "R": pin})
    for kind, sets in zip(("SDFFE", "DFFE"), _SETS, strict=True)
    for clock, edge in _EDGES.items()
    for value, primitive, pin in sets
} | {
    f"$_DLATCH_{gate}P{value}_": (primitive, {"E": "G", "R": pin})
    for gate in _EDGES
    for value, primitive, pin in (("0", "LDCE", "CLR"), ("1", "LDPE", "PRE"))
}

Bit = int | str
"""A net number, or the constant ``"0"``, ``"1"``, ``"x"`` or ``"z"``."""


@dataclass(frozen=True)
class Cell:
    """A primitive of the flattened netlist."""

    name: str
    kind: str
    parameters: dict[str, str]
    inputs: dict[str, tuple[Bit, ...]]
    outputs: dict[str, tuple[Bit, ...]]

    def input_nets(self) -> Iterator[int]:
        """Every input bit that is a net, port by port."""
        return (bit for bits in self.inputs.values() for bit in bits if isinstance(bit, int))

    def output_nets(self) -> Iterator[int]:
        """Every output bit that is a net, port by port."""
        return (bit for bits in self.outputs.values() for bit in bits if isinstance(bit, int))


@dataclass(frozen=True)
class Netlist:
    """The flattened top module: primitives, nets of the ports, and names of nets in the source."""

    top: str
    cells: tuple[Cell, ...]
    port_inputs: frozenset[int]
    port_outputs: frozenset[int]
    names: dict[int, str]


def read_netlist(file: Path, top: str) -> Netlist:
    """Read a JSON netlist of Yosys's ``write_json``: the top module, and the primitives with an attribute ``keep``.

    LUTs may be Yosys's ``$lut``; registers and latches may be Yosys's cells such as ``$_SDFFE_PP0P_``. Unread cells are
    left out, as by ``clean``. A `UserError` for a netlist without cells, unless every output is an input.
    """
    modules = json.loads(file.read_text(encoding="utf-8"))["modules"]
    module = modules.get(top, {"ports": {}, "cells": {}, "netnames": {}, "attributes": {}})
    kinds = {name for name, module in modules.items() if "keep" in module["attributes"]}
    cells = {name: cell for name, cell in module["cells"].items() if cell["type"] != "$scopeinfo"}
    nets: dict[str, set[int]] = {"input": set(), "output": set(), "inout": set()}
    for port in module["ports"].values():
        nets[port["direction"]].update(bit for bit in port["bits"] if isinstance(bit, int))
    outputs = frozenset(nets["output"] | nets["inout"])
    if not cells:
        _refuse_nothing(top, module["ports"], nets["input"] | nets["inout"])
    kept_cells = {name for name, cell in cells.items() if "keep" in cell["attributes"] or cell["type"] in kinds}
    read = outputs.union(*(net["bits"] for net in module["netnames"].values() if "keep" in net["attributes"]))
    named = sorted((name, net) for name, net in module["netnames"].items() if not net["hide_name"])
    return Netlist(
        top,
        _without_unread([_primitive(name, cell) for name, cell in cells.items()], kept_cells, read),
        frozenset(nets["input"] | nets["inout"]),
        outputs,
        {bit: bit_name for name, net in reversed(named) for bit, bit_name in _bit_names(name, net)},
    )


def _refuse_nothing(top: str, ports: Mapping[str, Any], inputs: Set[int]) -> None:
    outputs = [port["bits"] for port in ports.values() if port["direction"] != "input"]
    if not outputs or any(not inputs >= {*bits} for bits in outputs):
        raise UserError(
            f"nothing is left of {top!r} to estimate: it has no outputs, or they are constants or have no driver; name "
            "another top module, or its parameters"
        )


def _bit_names(name: str, net: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Bits of a net with their source names, ``count[3]`` or, for a single bit, ``valid``; without constants."""
    bits, first = net["bits"], net.get("offset", 0)
    for place, bit in enumerate(reversed(bits) if net.get("upto") else bits):
        if isinstance(bit, int):
            yield bit, f"{name}[{first + place}]" if len(bits) > 1 else name


def _primitive(name: str, cell: dict[str, Any]) -> Cell:
    kind, connections, parameters = cell["type"], cell["connections"], cell["parameters"]
    if kind == "$lut":
        data, output, table = connections["A"], tuple(connections["Y"]), parameters["LUT"]
        if table == "01":
            return Cell(name, "INV", {}, {"I": tuple(data)}, {"O": output})
        inputs: dict[str, tuple[Bit, ...]] = {f"I{place}": (bit,) for place, bit in enumerate(data)}
        return Cell(name, f"LUT{len(data)}", {"INIT": table}, inputs, {"O": output})
    kind, pins = _REGISTERS.get(kind, (kind, {}))
    ways: dict[str, dict[str, tuple[Bit, ...]]] = {"input": {}, "output": {}, "inout": {}}
    for port, way in cell.get("port_directions", {}).items():
        ways[way][pins.get(port, port)] = tuple(connections[port])
    return Cell(name, kind, parameters, ways["input"], ways["output"])


def _without_unread(cells: Sequence[Cell], kept_cells: Set[str], read: Set[Bit]) -> tuple[Cell, ...]:
    """Cells without unread cells and without cells that only unread cells read; cells named in ``kept_cells`` stay."""
    readers = Counter(chain(read, *map(Cell.input_nets, cells)))
    drivers = {bit: cell for cell in cells for bits in cell.outputs.values() for bit in bits}

    def unread(cell: Cell) -> bool:
        return (
            bool(cell.outputs) and cell.name not in kept_cells and not any(map(readers.__getitem__, cell.output_nets()))
        )

    waiting = [cell for cell in cells if unread(cell)]
    left_out = {cell.name for cell in waiting}
    for cell in waiting:
        for bit in cell.input_nets():
            readers[bit] -= 1
            if not readers[bit] and (driver := drivers.get(bit)) and driver.name not in left_out and unread(driver):
                left_out.add(driver.name)
                waiting.append(driver)
    return tuple(cell for cell in cells if cell.name not in left_out)
