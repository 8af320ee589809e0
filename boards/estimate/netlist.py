"""Run Yosys in a child process and read the netlist it wrote.

An error inside pyosys ends the process that loaded it, so synthesis never runs in ours.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...golden.errors import UserError
from ...hw import yosys
from ...hw.yosys import YosysError
from .techmaps import MULTIPLIERS, block_ram_contents

Bit = int | str
"""A net number, or the constant ``"0"``, ``"1"``, ``"x"`` or ``"z"``."""

MAX_SMALL_PRODUCT = 18
"""A multiplier stays in the fabric while its two operand widths add up to this or less."""

# Every LUT costs the same here: the costs that synth_xilinx gives favour small LUTs in the hope that
# something packs them, and its restructuring shares logic more than Vivado does. Both settled by calibration.
_MAP_LUTS = "abc9 -luts 6:1,2,4 -W 300 -script +&sweep;,&dc2;,&if,{W}"


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


def _flow(reads: Sequence[str], top: str) -> list[str]:
    synth = f"synth_xilinx -family xcup -flatten -noiopad -noclkbuf -top {top} -run"
    small = [
        f"select -set small @small t:$mul r:A_WIDTH={a} %i r:B_WIDTH<={MAX_SMALL_PRODUCT - a} %i %u"
        for a in range(1, MAX_SMALL_PRODUCT)
    ]
    return [
        *reads,
        f"hierarchy -check -top {top}",
        f"{synth} begin:prepare",
        # Simulation-only cells have no hardware.
        "delete */t:$print */t:$check */t:$assert */t:$assume */t:$cover */t:$live */t:$fair",
        f"{synth} prepare:map_dsp",
        "memory_dff",
        "alumacc -macc-only",
        "maccmap -unmap",
        "opt_clean",
        "select -set small t:$mul t:$mul %d",
        *small,
        "chtype -set $__soft_mul @small",
        "techmap -map +/mul2dsp.v -map multipliers.v -D DSP_A_MAXWIDTH=27 -D DSP_B_MAXWIDTH=18"
        " -D DSP_A_MAXWIDTH_PARTIAL=18 -D DSP_A_MINWIDTH=2 -D DSP_B_MINWIDTH=2 -D DSP_Y_MINWIDTH=9"
        " -D DSP_SIGNEDONLY=1 -D DSP_NAME=$__MUL27X18",
        "select a:mul2dsp",
        "setattr -unset mul2dsp",
        "opt_expr -fine",
        "wreduce",
        "select -clear",
        "xilinx_dsp -family xc7",
        f"{synth} coarse:map_luts",
        "opt_expr -mux_undef -noclkinv",
        _MAP_LUTS,
        "clean",
        "xilinx_srl -fixed -minlen 3",
        "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6",
        "opt_lut_ins -tech xilinx",
        f"{synth} finalize:edif",
        "write_json netlist.json",
    ]


def _explain(failure: YosysError, top: str, sources: str) -> UserError:
    error = str(failure)
    if f"Module `{top}' not found" in error:
        declared = ", ".join(sorted(set(re.findall(r"module `(?:\$abstract)?\\([^'$]+)'", failure.log))))
        return UserError(f"no module {top!r} in {sources}: choose one of {declared or '(none there)'}")
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


def _synthesise(reads: Sequence[str], top: str, sources: str, folder: Path) -> Netlist:
    if not re.fullmatch(r"[A-Za-z_][\w$.]*", top):
        raise UserError(f"{top!r} is not a module name: give the plain name of the top module")
    (folder / "multipliers.v").write_text(MULTIPLIERS, encoding="utf-8")
    # Yosys looks for an include file in the working directory first
    (folder / "brams_defs.vh").write_text(block_ram_contents(), encoding="utf-8")
    try:
        yosys.run(_flow(reads, top), folder)
    except YosysError as failure:
        raise _explain(failure, top, sources) from failure
    return _parse((folder / "netlist.json").read_text(encoding="utf-8"), top)


def from_rtlil(rtlil: str, top: str) -> Netlist:
    """Synthesise RTLIL text, as Amaranth's ``rtlil.convert`` gives it."""
    with tempfile.TemporaryDirectory(prefix="fabtune-estimate-") as name:
        folder = Path(name)
        (folder / "design.il").write_text(rtlil, encoding="utf-8")
        return _synthesise(["read_rtlil design.il"], top, "the RTLIL", folder)


def from_verilog(files: Sequence[Path], top: str) -> Netlist:
    """Synthesise Verilog or SystemVerilog files."""
    if not files:
        raise UserError("no Verilog file given: name at least one")
    for file in files:
        if not file.is_file():
            raise UserError(f"no file {str(file)!r}: give the path of a Verilog file")
    with tempfile.TemporaryDirectory(prefix="fabtune-estimate-") as name:
        # -defer: a module without parameter defaults can only be built once its parent names them.
        reads = [f'read_verilog -sv -defer "{file.resolve()}"' for file in files]
        return _synthesise(reads, top, ", ".join(file.name for file in files), Path(name))
