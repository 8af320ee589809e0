"""Single faults in a block's netlist, listed and applied by Yosys's `mutate` pass, alone or many per design."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..golden.block import Spec
from ..golden.errors import UserError
from ..hw import naming, yosys
from ..hw.power_up import with_power_up
from ..hw.source_names import names_from_source
from ..hw.top import TopWrapper
from ..hw.verilog import Emitted, component, emit

PORT = "mutant"
"""Input of a design with many faults, selects the active fault."""
_ROOT = Path(__file__).parents[1]
_SOURCE = re.compile(r'^(\s*attribute \\src )"(.*)"$', re.MULTILINE)
_FILE = re.compile(r"\b(hw/[\w/]+\.py):\d")
_TOP_FILE = "hw/top.py"
"""The top module; its source lines also mark everything it instantiates."""
_MADE_BY = "made_by"
"""Cell attribute: Python files that created the cell, without the files of enclosing instances."""
_OWN_CELL = re.compile(r'(?:  attribute \\src "(.*)"\n)?(?:  attribute (?!\\src).*\n)*  cell \$.*$', re.MULTILINE)
_COMPONENT = re.compile(rf'  attribute \\{_MADE_BY} "(.*)"\n(?:  attribute .*\n)*  cell \S+ (\S+)$', re.MULTILINE)
_CELL = re.compile(r"^  cell (\S+) (\S+)$", re.MULTILINE)
_SAMPLED_OF_A_CELL = 10
"""Faults per cell up to which Yosys samples; close to the total the sampling does not terminate."""
_ALL = 10**8
_CLOCKS = ("CLK", "RD_CLK", "WR_CLK")
"""Ports without faults: an and-inverter graph has no clock, and would ignore a changed clock."""
_UNCLOCKED = re.compile(r"^  cell \$memrd_v2 (\S+)\n(?:    .*\n)*?    parameter \\CLK_ENABLE (?:1'0|0)$", re.MULTILINE)
_OF_CLOCKED = ("EN", "ARST", "SRST")
"""Ports without meaning on asynchronous memory reads, required unchanged by Yosys."""
_CELLS = "{} t:$meminit* %d"
"""Cells with faults: all but initial memory contents, whose many bits are constants."""
_ONE_INITIAL = "setattr -unset init a:init t:$*dff* %co1:+[Q] %d"
"""Pass that keeps initial values only on wires driven by registers.

Aliases of such a wire carry them too, and Yosys fails when one of two becomes constant first.
"""
_MODES = {
    "inv": "inverted",
    "const0": "stuck at 0",
    "const1": "stuck at 1",
    "cnot0": "inverted where bit {} is 0",
    "cnot1": "inverted where bit {} is 1",
}


@dataclass(frozen=True)
class CellNetlist:
    """Flat RTLIL of word-level cells of a block, to put single faults into, and the emitted block with its
    port names.
    """

    emitted: Emitted
    text: str


@dataclass(frozen=True)
class CellFault:
    """Single fault: cell, port, bit.

    Parameters
    ----------
    mode : "inv", "const0", "const1", "cnot0" or "cnot1"
        Inverted, stuck at 0 or 1, or inverted while the `control` bit of the same port is 0 or 1.
    cell, kind : str
        Name and type of the cell, for instance ``$add``.
    port : str
        Port of the cell.
    bit, control : int
        Bits of the port; `control` is -1 where unused.
    wire : str
        Named wire and bit at the port, ``o_valid[0]``, or empty.
    source : str
        Python lines of the cell and its enclosing instances, ``hw/zo/perturb.py:63``, joined with ``|``.
    files : tuple of str
        Python files that created the cell, without the files of enclosing instances.
    """

    mode: str
    cell: str
    kind: str
    port: str
    bit: int
    control: int
    wire: str
    source: str
    files: tuple[str, ...]

    def command(self, module: str) -> str:
        """Yosys pass that applies the fault."""
        control = f" -ctrlbit {self.control}" if self.control >= 0 else ""
        place = f"-module {module} -cell {self.cell} -port {self.port} -portbit {self.bit}"
        return f"mutate -mode {self.mode} {place}{control}"

    def __str__(self) -> str:
        what = _MODES[self.mode].format(self.control)
        wire = f" ({self.wire})" if self.wire else ""
        place = f" at {self.source}" if self.source else ""
        return f"{self.port}[{self.bit}] of {self.kind}{wire} {what}{place}"


def netlist(spec: Spec) -> CellNetlist:
    """Netlist of a block: as emitted by `hw.verilog.emit`, with source lines, without purely textual passes."""
    emitted = emit(spec)
    with names_from_source():
        wrapper = TopWrapper(component(spec), spec)
    text = naming.convert(wrapper, emitted.top, None, emit_src=True)
    return CellNetlist(emitted, prepared(text, emitted.top))


def prepared(text: str, top: str) -> str:
    """RTLIL prepared for faults: flat, without processes and without unused logic."""
    with tempfile.TemporaryDirectory(prefix="fabtune-") as name:
        folder = Path(name)
        (folder / "design.il").write_text(_SOURCE.sub(_short, text), encoding="utf-8")
        yosys.run(["read_rtlil design.il", f"hierarchy -top {top}", "proc", "write_rtlil cells.il"], folder)
        cells = (folder / "cells.il").read_text(encoding="utf-8")
        (folder / "cells.il").write_text(_OWN_CELL.sub(_marked, cells), encoding="utf-8")
        yosys.run(
            [
                "read_rtlil cells.il",
                "flatten -separator _ -noscopeinfo",
                _ONE_INITIAL,
                "pmuxtree",
                "opt",
                "wreduce",
                "opt",
                # registers start at 0: a fault at a register's output then needs no moved initial value
                "zinit -all",
                "setattr -unset init w:*",
                "opt_clean",
                "setattr -unset hdlname",
                "write_rtlil netlist.il",
            ],
            folder,
        )
        return (folder / "netlist.il").read_text(encoding="utf-8")


def _short(match: re.Match[str]) -> str:
    """Reduce source attributes to fabtune's lines, relative to its root: the fault sample depends on them."""
    places = match[2].split("|")
    # only `hw`: the root may contain an environment with Amaranth
    lines = dict.fromkeys(place.removeprefix(f"{_ROOT}/") for place in places if place.startswith(f"{_ROOT}/hw/"))
    return f'{match[1]}"{"|".join(lines)}"'


def _marked(match: re.Match[str]) -> str:
    """Mark a cell with its file, as `flatten` adds the lines of all enclosing instances."""
    files = dict.fromkeys(_FILE.findall(match[1] or ""))
    return f'  attribute \\{_MADE_BY} "{" ".join(files)}"\n{match[0]}'


def list_faults(made: CellNetlist, count: int, seed: int, component: str = "") -> list[CellFault]:
    """Up to `count` faults sampled evenly over the cells; deterministic in netlist, count, seed and component.

    `component` limits the sample to the cells of a Python file, such as ``hw/nn/mac.py``. Raises `UserError` if no cell
    comes from this file.
    """
    cells = "*"
    if component:
        known = sorted({file for files in _components(made).values() for file in files})
        if component not in known:
            name = made.emitted.top
            raise UserError(f"no cell of {name} comes from {component!r}: choose from {', '.join(known)}")
        cells = f"a:{_MADE_BY}=*{component}*"
    components = _components(made)
    kinds = {cell: kind for kind, cell in _CELL.findall(made.text)}
    unclocked = set(_UNCLOCKED.findall(made.text))
    asked, most = 2 * count, _SAMPLED_OF_A_CELL * made.text.count("\n  cell ")
    with tempfile.TemporaryDirectory(prefix="fabtune-") as name:
        folder = Path(name)
        (folder / "netlist.il").write_text(made.text, encoding="utf-8")
        while True:
            whole = asked > most
            asked = _ALL if whole else asked
            command = f"mutate -list {asked} -seed {seed % (1 << 31)} -o list {_CELLS.format(cells)}"
            yosys.run(["read_rtlil netlist.il", command], folder)
            lines = (folder / "list").read_text(encoding="utf-8").splitlines()
            if whole:
                lines = np.random.default_rng(seed).permutation(lines).tolist()
            listed = dict.fromkeys(_parse(line, kinds, components) for line in lines)
            usable = [
                fault
                for fault in listed
                if fault.port not in _CLOCKS and not (fault.cell in unclocked and fault.port in _OF_CLOCKED)
            ]
            if len(usable) >= count or len(lines) < asked:
                return usable[:count]
            asked *= 2


def _components(made: CellNetlist) -> dict[str, tuple[str, ...]]:
    """Python files of each cell, by cell name."""
    return {cell: tuple(files.split()) for files, cell in _COMPONENT.findall(made.text)}


def _parse(line: str, kinds: dict[str, str], components: dict[str, tuple[str, ...]]) -> CellFault:
    words = line.split()[1:]
    options: dict[str, str] = {}
    sources = []
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "-src":
            sources += value.split("|")
        else:
            options[option.removeprefix("-")] = value
    return CellFault(
        mode=options["mode"],
        cell=options["cell"],
        kind=kinds.get(options["cell"]) or kinds[f"\\{options['cell']}"],
        port=options["port"],
        bit=int(options["portbit"]),
        control=int(options.get("ctrlbit", -1)),
        wire=f"{options['wire']}[{options['wirebit']}]" if "wire" in options else "",
        source="|".join(dict.fromkeys(source for source in sources if not source.startswith(_TOP_FILE))),
        files=components.get(options["cell"]) or components.get(f"\\{options['cell']}", ()),
    )


def mutant(made: CellNetlist, fault: CellFault | None) -> Emitted:
    """Verilog and RTLIL of the block with a fault, or of the equally processed block without; same ports as emitted."""
    return _with(made, [fault.command(made.emitted.top)] if fault else [])


def mutants(made: CellNetlist, faults: Sequence[CellFault]) -> Emitted:
    """The block with many faults, at most one active at a time.

    As `mutant`, with the additional input `PORT`: value n activates fault n, counted from 1; 0 activates none. The
    input must be stable from before the first clock edge.
    """
    top, width = made.emitted.top, len(faults).bit_length()
    return _with(made, [f"{fault.command(top)} -ctrl {PORT} {width} {at}" for at, fault in enumerate(faults, 1)])


def _with(made: CellNetlist, commands: list[str]) -> Emitted:
    """Apply Yosys commands that insert faults into the netlist."""
    with tempfile.TemporaryDirectory(prefix="fabtune-") as name:
        folder = Path(name)
        (folder / "netlist.il").write_text(made.text, encoding="utf-8")
        yosys.run(
            [
                "read_rtlil netlist.il",
                *commands,
                "setundef -init -zero",
                "setattr -unset src",
                "opt_clean",
                "write_rtlil mutant.il",
                yosys.NO_ZERO_CONTENTS,
                "write_verilog -noattr mutant.v",
            ],
            folder,
        )
        verilog, text = ((folder / f"mutant.{kind}").read_text(encoding="utf-8") for kind in ("v", "il"))
    return replace(made.emitted, verilog=with_power_up(verilog), rtlil=text)
