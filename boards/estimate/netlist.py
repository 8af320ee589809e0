"""Netlists of primitives, as Yosys writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Bit = int | str
"""A net number, or the constant ``"0"``, ``"1"``, ``"x"`` or ``"z"``."""


@dataclass(frozen=True)
class Cell:
    """One primitive of the flattened netlist."""

    name: str
    kind: str
    parameters: dict[str, str]
    inputs: dict[str, tuple[Bit, ...]]
    outputs: dict[str, tuple[Bit, ...]]

    def input_nets(self) -> Iterator[int]:
        """Every input bit that is a net, port by port."""
        return (bit for bits in self.inputs.values() for bit in bits if isinstance(bit, int))


@dataclass(frozen=True)
class Netlist:
    """The flattened top module: its primitives, the nets of its ports and what the source calls its nets."""

    top: str
    cells: tuple[Cell, ...]
    port_inputs: frozenset[int]
    port_outputs: frozenset[int]
    names: dict[int, str]


def read_netlist(file: Path, top: str) -> Netlist:
    """Read the file that ``write_json`` of Yosys writes."""
    module = json.loads(file.read_text(encoding="utf-8"))["modules"][top]
    cells = []
    for name, cell in module["cells"].items():
        if cell["type"] == "$scopeinfo":
            continue
        directions = cell.get("port_directions", {})
        cells.append(
            Cell(
                name=name,
                kind=cell["type"],
                parameters=cell["parameters"],
                inputs=_bits(cell["connections"], [p for p, way in directions.items() if way == "input"]),
                outputs=_bits(cell["connections"], [p for p, way in directions.items() if way == "output"]),
            )
        )
    nets: dict[str, set[int]] = {"input": set(), "output": set(), "inout": set()}
    for port in module["ports"].values():
        nets[port["direction"]].update(bit for bit in port["bits"] if isinstance(bit, int))
    named = sorted((name, net["bits"]) for name, net in module["netnames"].items() if not net["hide_name"])
    return Netlist(
        top,
        tuple(cells),
        frozenset(nets["input"] | nets["inout"]),
        frozenset(nets["output"] | nets["inout"]),
        {bit: name for name, bits in reversed(named) for bit in bits if isinstance(bit, int)},
    )


def _bits(connections: dict[str, list[Bit]], names: Sequence[str]) -> dict[str, tuple[Bit, ...]]:
    return {name: tuple(connections[name]) for name in names}
