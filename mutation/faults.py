"""Single faults of a block's netlist, as Yosys's `mutate` pass lists and applies them, one or many in a design."""

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
"""Input of a design with many faults, which chooses one."""
_ROOT = Path(__file__).parents[1]
_SOURCE = re.compile(r'^(\s*attribute \\src )"(.*)"$', re.MULTILINE)
_FILE = re.compile(r"\b(hw/[\w/]+\.py):\d")
_TOP_FILE = "hw/top.py"
"""The top module, with whose lines what it instantiates is marked too."""
_MADE_BY = "made_by"
"""Attribute of a cell: the Python files with whose lines it was made, without those of the instances around it."""
_OWN_CELL = re.compile(r'(?:  attribute \\src "(.*)"\n)?(?:  attribute (?!\\src).*\n)*  cell \$.*$', re.MULTILINE)
_COMPONENT = re.compile(rf'  attribute \\{_MADE_BY} "(.*)"\n(?:  attribute .*\n)*  cell \S+ (\S+)$', re.MULTILINE)
_CELL = re.compile(r"^  cell (\S+) (\S+)$", re.MULTILINE)
_SAMPLED_OF_A_CELL = 10
"""Faults for each cell up to which Yosys draws a sample; it does not end where few are left to draw from."""
_ALL = 10**8
_CLOCKS = ("CLK", "RD_CLK", "WR_CLK")
"""Ports without faults: an and-inverter graph has no clock, and would take a changed one for the same."""
_UNCLOCKED = re.compile(r"^  cell \$memrd_v2 (\S+)\n(?:    .*\n)*?    parameter \\CLK_ENABLE (?:1'0|0)$", re.MULTILINE)
_OF_CLOCKED = ("EN", "ARST", "SRST")
"""Ports that have no meaning where a memory is read without a clock, and which Yosys wants as they are there."""
_CELLS = "{} t:$meminit* %d"
"""Selection of the cells with faults: all but the initial contents of memories, whose many bits are constants."""
_ONE_INITIAL = "setattr -unset init a:init t:$*dff* %co1:+[Q] %d"
"""Pass: leave initial values at the wires that registers drive.

Other names of such a wire have them too, and Yosys stops where one of two becomes constant first.
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
    """Netlist of a block, flat and of word-level cells, in which single faults are made.

    Parameters
    ----------
    emitted : Emitted
        The same block as it is emitted: names of the top module and its ports.
    text : str
        RTLIL.
    """

    emitted: Emitted
    text: str


@dataclass(frozen=True)
class CellFault:
    """Single fault: one bit of one port of one cell.

    Parameters
    ----------
    mode : "inv", "const0", "const1", "cnot0" or "cnot1"
        What becomes of the bit; with ``cnot0`` and ``cnot1`` it is inverted where another bit of the port, `control`,
        is 0 or 1.
    cell, kind : str
        The cell's name and type, for instance ``$add``.
    port : str
        The cell's port.
    bit, control : int
        Bits of the port; `control` is -1 where the mode has none.
    wire : str
        Named wire and bit of it to which the port is connected, ``o_valid[0]``; empty where there is none.
    source : str
        Lines of Python that made the cell, and the instances around it: ``hw/zo/perturb.py:63``, several with ``|``
        between them.
    files : tuple of str
        Components to which the cell belongs: the Python files that made it, without those of the instances.
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
        """Write the pass that makes the fault."""
        control = f" -ctrlbit {self.control}" if self.control >= 0 else ""
        place = f"-module {module} -cell {self.cell} -port {self.port} -portbit {self.bit}"
        return f"mutate -mode {self.mode} {place}{control}"

    def __str__(self) -> str:
        what = _MODES[self.mode].format(self.control)
        wire = f" ({self.wire})" if self.wire else ""
        place = f" at {self.source}" if self.source else ""
        return f"{self.port}[{self.bit}] of {self.kind}{wire} {what}{place}"


def netlist(spec: Spec) -> CellNetlist:
    """Make the netlist of a block.

    It is that of `hw.verilog.emit` with the lines of Python that made each cell, and without the steps that only adapt
    the text to its readers.
    """
    emitted = emit(spec)
    with names_from_source():
        wrapper = TopWrapper(component(spec), spec)
    text = naming.convert(wrapper, emitted.top, None, emit_src=True)
    return CellNetlist(emitted, prepared(text, emitted.top))


def prepared(text: str, top: str) -> str:
    """Prepare RTLIL for faults: flat, without processes and without logic that nothing depends on."""
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
                # all registers begin at 0, so that a fault at a register's output need not move an initial value
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
    """Leave of an attribute with source lines those of fabtune, relative to its root: the sample depends on them."""
    places = match[2].split("|")
    # not all of the root: an environment with Amaranth may lie in it
    own = dict.fromkeys(place.removeprefix(f"{_ROOT}/") for place in places if place.startswith(f"{_ROOT}/hw/"))
    return f'{match[1]}"{"|".join(own)}"'


def _marked(match: re.Match[str]) -> str:
    """Mark a cell with the file that made it: behind `flatten` its lines are with those of all instances around it."""
    files = dict.fromkeys(_FILE.findall(match[1] or ""))
    return f'  attribute \\{_MADE_BY} "{" ".join(files)}"\n{match[0]}'


def list_faults(made: CellNetlist, count: int, seed: int, component: str = "") -> list[CellFault]:
    """List faults, sampled evenly over the cells; the same for the same netlist, count, seed and component.

    Parameters
    ----------
    made : CellNetlist
        The netlist.
    count : int
        How many; fewer where there are no more.
    seed : int
        Seed of the sample; Yosys takes 31 bits of it.
    component : str
        File of the Python that made the cells, ``hw/nn/mac.py``, to which the sample is confined; by default all.

    Raises
    ------
    UserError
        If no cell comes from that file, with the files from which there are.
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
            found = [
                fault
                for fault in listed
                if fault.port not in _CLOCKS and not (fault.cell in unclocked and fault.port in _OF_CLOCKED)
            ]
            if len(found) >= count or len(lines) < asked:
                return found[:count]
            asked *= 2


def _components(made: CellNetlist) -> dict[str, tuple[str, ...]]:
    """Files that made each cell, by the cell's name."""
    return {cell: tuple(files.split()) for files, cell in _COMPONENT.findall(made.text)}


def _parse(line: str, kinds: dict[str, str], components: dict[str, tuple[str, ...]]) -> CellFault:
    words = line.split()[1:]
    told: dict[str, str] = {}
    sources = []
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "-src":
            sources += value.split("|")
        else:
            told[option.removeprefix("-")] = value
    return CellFault(
        mode=told["mode"],
        cell=told["cell"],
        kind=kinds.get(told["cell"]) or kinds[f"\\{told['cell']}"],
        port=told["port"],
        bit=int(told["portbit"]),
        control=int(told.get("ctrlbit", -1)),
        wire=f"{told['wire']}[{told['wirebit']}]" if "wire" in told else "",
        source="|".join(dict.fromkeys(one for one in sources if not one.startswith(_TOP_FILE))),
        files=components.get(told["cell"]) or components.get(f"\\{told['cell']}", ()),
    )


def mutant(made: CellNetlist, fault: CellFault | None) -> Emitted:
    """Make the block with a fault in it; without one, the block as its mutants are made from it.

    Returns
    -------
    Emitted
        Verilog and RTLIL with the ports of the block as it is emitted.
    """
    return _with(made, [fault.command(made.emitted.top)] if fault else [])


def mutants(made: CellNetlist, faults: Sequence[CellFault]) -> Emitted:
    """Make the block with many faults in it, of which one or none is there at a time.

    Returns
    -------
    Emitted
        As `mutant` gives it, with one input more, `PORT`: at 1 the first of the faults is there, at 2 the second, at 0
        none. It is to keep its value from before the first edge of the clock.
    """
    top, width = made.emitted.top, len(faults).bit_length()
    return _with(made, [f"{fault.command(top)} -ctrl {PORT} {width} {at}" for at, fault in enumerate(faults, 1)])


def _with(made: CellNetlist, commands: list[str]) -> Emitted:
    """Make the block after commands of Yosys that put faults into its netlist."""
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
