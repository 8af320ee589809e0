"""Run Yosys in a child process and read the netlist it wrote.

An error inside pyosys ends the process that loaded it, so synthesis never runs in ours.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...golden.errors import UserError
from ...hw import yosys
from ...hw.verilog import without_garbage_collection
from ...hw.yosys import YosysError
from .flow import MAPPINGS, NETLIST, PATHS, files, flow

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


@dataclass(frozen=True)
class Synthesis:
    """One design mapped for area, which tells its resources, and mapped for depth, which tells its paths."""

    small: Netlist
    fast: Netlist


def _explain(failure: YosysError, top: str, sources: str) -> UserError:
    error = str(failure)
    if f"Module `{top}' not found" in error:
        declared = ", ".join(sorted(set(re.findall(r"module `(?:\$abstract)?\\([^'$]+)'", failure.log))))
        return UserError(f"no module {top!r} in {sources}: choose one of {declared or '(none there)'}")
    if unknown := re.search(r"Can't find object for defparam `(\w+)`", error):
        return UserError(f"{top!r} has no parameter {unknown[1]!r}")
    if missing := re.search(r"Module `(\S+)' referenced in module `(\S+)'.*is not part of the design", error):
        name, where = missing.groups()
        return UserError(f"module {name!r} of {where!r} is not in {sources}: add the file that declares it")
    return UserError(f"Yosys cannot synthesise {sources}: {error}")


def _bits(connections: dict[str, list[Bit]], names: Sequence[str]) -> dict[str, tuple[Bit, ...]]:
    return {name: tuple(connections[name]) for name in names}


def _parse(text: str, top: str) -> Netlist:
    module = json.loads(text)["modules"][top]
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


def _value(name: str, text: str) -> str:
    """Write a parameter's value as Yosys reads one: a Verilog number, or a string as the number that it is."""
    if re.fullmatch(r"[A-Za-z_]\w*", name):
        if re.fullmatch(r"\d+|\d*'s?[bodhBODH][0-9a-fA-F_]+", text):
            return text
        if re.fullmatch(r"-\d+", text):
            return f"32'h{int(text) % 2**32:X}"
        if re.fullmatch(r'"[ -~]+"', text):
            return f"{8 * (len(text) - 2)}'h{text[1:-1].encode().hex()}"
    raise UserError(f"{name}={text} is no parameter: give NAME=NUMBER, or a string in quotes")


def _synthesise(
    reads: Sequence[str], top: str, sources: str, folder: Path, parameters: Mapping[str, str] | None = None
) -> Synthesis:
    values = {name: _value(name, text) for name, text in (parameters or {}).items()}
    if not re.fullmatch(r"[A-Za-z_][\w$.]*", top):
        raise UserError(f"{top!r} is not a module name: give the plain name of the top module")
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    try:
        yosys.run(flow(reads, top, values), folder, MAPPINGS)
    except YosysError as failure:
        raise _explain(failure, top, sources) from failure
    with without_garbage_collection():
        return Synthesis(*(_parse((folder / name).read_text(encoding="utf-8"), top) for name in (NETLIST, PATHS)))


def from_rtlil(rtlil: str, top: str) -> Synthesis:
    """Synthesise RTLIL text, as Amaranth's ``rtlil.convert`` gives it."""
    return _from_text(rtlil, "read_rtlil", top, "the RTLIL")


def from_text(verilog: str, top: str) -> Synthesis:
    """Synthesise Verilog text of modules without parameters, as `emit` gives it."""
    return _from_text(verilog, "read_verilog -sv", top, "the Verilog")


def _from_text(text: str, read: str, top: str, sources: str) -> Synthesis:
    with tempfile.TemporaryDirectory(prefix="fabtune-estimate-") as name:
        (Path(name) / "design").write_text(text, encoding="utf-8")
        return _synthesise([f"{read} design"], top, sources, Path(name))


def from_verilog(sources: Sequence[Path], top: str, parameters: Mapping[str, str] | None = None) -> Synthesis:
    """Synthesise Verilog or SystemVerilog files, with parameters of the top module that differ from its defaults."""
    if not sources:
        raise UserError("no Verilog file given: name at least one")
    for file in sources:
        if not file.is_file():
            raise UserError(f"no file {str(file)!r}: give the path of a Verilog file")
    with tempfile.TemporaryDirectory(prefix="fabtune-estimate-") as name:
        # a module gets parameters of its top only if it is built then, not when it is read
        defer = "-defer " if parameters else ""
        reads = [f'read_verilog -sv {defer}"{file.resolve()}"' for file in sources]
        return _synthesise(reads, top, ", ".join(file.name for file in sources), Path(name), parameters)
