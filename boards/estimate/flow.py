"""Commands of Yosys that synthesise a design for UltraScale+, as near to Vivado's counts as calibration got them.

The steps are those of ``synth_xilinx -family xcup``, with other ones where docs/estimate.md says so.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...golden.nn.arithmetic.multipliers import MAX_SMALL_PRODUCT
from ...hw import arithmetic_passes, synthesis_passes, yosys
from .primitives import KNOWN

COUNTS = ("resources.json", "paths.json")
"""Files that the commands of `mappings` write: attributes of an `Estimate`."""

PRIMITIVES = "primitives.v"
"""File that `flow` reads first: what `primitives` gives."""

LEAST_SHIFT_REGISTER = 4
"""Stages from which a shift register is a LUT."""

_LIBRARY = ("cells_sim.v", "cells_xtra.v")
# in a source that may instantiate what it does not name in full
_INCOMPLETE = ("`include", "``")

_MAPS = Path(__file__).with_name("maps")
# attribute of a multiplier whose source says where it goes
_ASKED = "fabtune_use_dsp"
# more bits than the operands of many products together
_WIDE_REGISTER = 512
# least bits of a ROM with a registered read that is block RAM; what Yosys says one of 18 Kib costs
_LEAST_BLOCK_ROM = 2048
_BLOCK_RAM_COST = 129
_BLOCK_RAM_CONTENTS = ("INIT_18", "INIT_18_U", "INITP_18", "INIT_36", "INIT_36_U", "INITP_36")

_CHOOSE_MEMORIES = (
    f"memory_libmap -logic-cost-rom {_BLOCK_RAM_COST / _LEAST_BLOCK_ROM} -lib lut_memories.txt"
    " -lib +/xilinx/brams_xc4v.txt -D HAS_SIZE_36 -D HAS_MIXWIDTH_SDP -D HAS_ADDRCE"
    " -lib +/xilinx/urams.txt -no-auto-huge"
)
_MAP_MEMORIES = "techmap -map +/xilinx/lutrams_xc5v_map.v -map +/xilinx/brams_xcu_map.v -map +/xilinx/urams_map.v"

_LUT_INPUTS = 6
# a comparator's bits go in pairs, whose two functions share one LUT
_COMPARED_INPUTS = 4

# Vivado restructures more than the mapper of Yosys's own flow for these devices
_FOR_AREA = "strash;dch,-f;if,-a,-K,6;mfs2"
_FOR_DEPTH = "strash;dch,-f;if,-K,6"


def files() -> Mapping[str, str]:
    """Write the files that the commands of `flow` read, by name."""
    maps = {file.name: file.read_text(encoding="utf-8") for file in sorted(_MAPS.glob("*.v*"))}
    if not (own := _yosys_xilinx()):
        return maps  # `hw.yosys` refuses
    # Contents cost nothing, and evaluating them takes a tenth of a core's synthesis, half of a small block's.
    # Yosys looks for an include file in the working directory first.
    empty = (f"`define PARAMS_{name}" for name in _BLOCK_RAM_CONTENTS)
    contents = "\n".join([f'`include "{own / "brams_defs.vh"}"', *empty, ""])
    # RAM512X1S has 9 address bits; Yosys 0.70 says 16, and stops at a memory that is deeper than 256 words
    lut_memories = (own / "lutrams_xcu.txt").read_text(encoding="utf-8")
    lut_memories = re.sub(r'option "ABITS" 16 \{\s*abits 16;', 'option "ABITS" 9 {\n\t\tabits 9;', lut_memories)
    return maps | {"brams_defs.vh": contents, "lut_memories.txt": lut_memories}


def primitives(sources: Iterable[str]) -> str:
    """Write the library `PRIMITIVES`: modules without contents that the maps may instantiate, or the sources.

    It is a sixth of that of Yosys, of which every module costs each pass a little, and reading it half a second.
    """
    wanted, whole = set(KNOWN), False
    for source in sources:
        wanted.update(re.findall(r"\w+", source))
        whole |= any(sign in source for sign in _INCOMPLETE)
    folder = _yosys_xilinx()
    library = "".join((folder / name).read_text(encoding="utf-8") for name in _LIBRARY) if folder else ""
    modules = re.split(r"(?<=\nendmodule\n)", library)
    names = ((module, re.search(r"^module (\w+)", module, flags=re.MULTILINE)) for module in modules)
    return "".join(module for module, name in names if name and (whole or name[1] in wanted))


def _yosys_xilinx() -> Path | None:
    """Find Yosys's own files for these devices."""
    package = importlib.util.find_spec("pyosys")
    return Path(package.origin).parent / "share" / "xilinx" if package and package.origin else None


def flow(reads: Sequence[str], top: str, parameters: Mapping[str, str] | None = None) -> list[str]:
    """List the commands that read a design and synthesise it, up to `mappings`.

    Parameters
    ----------
    reads : sequence of str
        Commands that read the sources.
    top : str
        Top module.
    parameters : mapping of str to str, optional
        Parameters of the top module that differ from its defaults.
    """
    changed = "".join(f" -chparam {name} {value}" for name, value in (parameters or {}).items())
    return [
        f"read_verilog -lib {PRIMITIVES}",
        *reads,
        f"hierarchy -check -top {top}{changed}",
        *_prepare(),
        *_multipliers(),
        *_memories(),
        *_logic(),
    ]


def memories_alone(read: str) -> list[str]:
    """List the commands that map memories as `flow` does, each in a module with little else.

    Parameters
    ----------
    read : str
        Command that reads them.
    """
    return [
        read,
        yosys.NO_ZERO_CONTENTS,
        "proc",
        # or an address that is made twice is two
        "opt_merge",
        "memory_collect",
        _CHOOSE_MEMORIES,
        f"read_verilog -lib {PRIMITIVES}",
        _MAP_MEMORIES,
    ]


def _prepare() -> list[str]:
    return [
        synthesis_passes.INITIAL_VALUES,
        "proc",
        "flatten",
        yosys.KEEP_REGISTERS,
        # Simulation-only cells have no hardware.
        "delete */t:$print */t:$check */t:$assert */t:$assume */t:$cover */t:$live */t:$fair",
        "tribuf -logic",
        "techmap -map pads.v",
        # or the module is read again when its pads are known
        "setattr -unset reprocess_after t:OBUFT",
        "deminout",
        # only a register's name is shown; every name that stays costs each cleaning
        "rename -hide w:* t:$*dff* %co1:+[Q] %d a:use_dsp a:use_dsp48 a:keep %u %u %d",
        "opt_expr",
        "opt_clean",
        # a register with the attribute is not merged with an equal one, as by Vivado
        "setattr -set keep 1 a:keep w:* %i %ci1:+[Q] t:$*dff* %i",
        # while the wires are there
        *_ask_for("yes"),
        *_ask_for("no"),
        # before a register moves behind its read
        f"{synthesis_passes.SMALL_MEMORIES} {_LEAST_BLOCK_ROM}",
        "memory_map -rom-only a:fabtune_small",
        arithmetic_passes.ADD_SUB,
        # states keep the code that the source gives them
        synthesis_passes.OPTIMISE,
        arithmetic_passes.ADD_SUB,
        "opt_share",
        "wreduce",
        "peepopt",
        "pmux2shiftx",
        "opt_clean",
        arithmetic_passes.WHOLE_OPERANDS,
    ]


def _multipliers() -> list[str]:
    small = [
        f"select -set small @small t:$mul r:A_WIDTH={a} %i r:B_WIDTH<={MAX_SMALL_PRODUCT - a} %i %u"
        for a in range(1, MAX_SMALL_PRODUCT)
    ]
    return [
        "memory_dff",
        "select -set small t:$mul t:$mul %d",
        *small,
        f"select -set small @small t:$mul a:{_ASKED}=yes %i %d t:$mul a:{_ASKED}=no %i %u",
        "chtype -set $__soft_mul @small",
        "techmap -map wide_products.v",
        "setattr -unset reprocess_after t:DSP48E1",
        "alumacc -macc-only",
        "maccmap -unmap",
        "techmap -map +/mul2dsp.v -map products.v -D DSP_A_MAXWIDTH=27 -D DSP_B_MAXWIDTH=18"
        " -D DSP_A_MAXWIDTH_PARTIAL=18 -D DSP_A_MINWIDTH=2 -D DSP_B_MINWIDTH=2 -D DSP_Y_MINWIDTH=9"
        " -D DSP_SIGNEDONLY=1 -D DSP_NAME=$__MUL27X18",
        "select a:mul2dsp",
        "setattr -unset mul2dsp",
        "opt_expr -fine",
        "wreduce",
        "select -clear",
        # every pin of a DSP got wires of its own
        "opt_clean",
        # it goes through a register once for each of its bits: not through a wide one which no product is near
        "select -set products t:DSP48E1 %x4:-[CLK,EN,SRST,ARST]",
        f"select t:$*dff* r:WIDTH>={_WIDE_REGISTER} %i @products %d %n",
        "xilinx_dsp -family xc7",
        "select -clear",
        "chtype -set $mul t:$__soft_mul",
    ]


def _ask_for(value: str) -> list[str]:
    """Mark the multipliers whose product, or the register behind it, has an attribute ``use_dsp``."""
    # a step for a wire of another name, and one for the cell
    return [
        f"select -set named a:use_dsp={value} a:use_dsp48={value} %u",
        "select -set registers @named %ci2 t:$*dff* %i",
        "select -set products @named %ci2 @registers %ci3:-[CLK,EN,SRST,ARST] %u t:$mul %i",
        f'setattr -set {_ASKED} "{value}" @products',
    ]


def _memories() -> list[str]:
    return [
        f"{arithmetic_passes.COMPARATORS} {_LUT_INPUTS} {_COMPARED_INPUTS}",
        "alumacc",
        "share",
        # what ``memory -nomap`` does, without what was done already
        "opt_mem_priority",
        "opt_mem_feedback",
        "memory_share",
        "opt_mem_widen",
        "memory_collect",
        synthesis_passes.SEPARATE_MEMORIES,
        _CHOOSE_MEMORIES,
        "flatten",
        _MAP_MEMORIES,
        "memory_map",
    ]


def _logic() -> list[str]:
    return [
        f"{synthesis_passes.OPTIMISE} -full",
        f"xilinx_srl -variable -minlen {LEAST_SHIFT_REGISTER}",
        arithmetic_passes.PLAIN_OPERANDS,
        "techmap -map +/techmap.v -D LUT_SIZE=6 -map +/xilinx/arith_map.v -map carry_chains.v",
        # one round of ``opt -fast``: the mapping finds what is left
        "opt_expr -mux_undef -noclkinv",
        "opt_merge",
        "opt_dff",
        "opt_clean",
        f"xilinx_srl -fixed -minlen {LEAST_SHIFT_REGISTER}",
        "techmap -map +/techmap.v -map +/xilinx/cells_map.v",
        # registers and latches as the device has them, which `netlist` reads
        "dfflegalize -cell $_DFFE_?P?P_ 01 -cell $_SDFFE_?P?P_ 01 -cell $_DLATCH_?P?_ 01",
    ]


def _map(script: str) -> list[str]:
    return [
        # of a register that it knows, abc would make a border between two mappings
        f"abc -lut 6 -script +{script} t:$_*DFF* t:$_DLATCH* %u %n",
        # `netlist` reads these LUTs, and leaves out what has no reader: for Yosys that takes as long as half of abc
        "opt_lut_ins",
    ]


def mappings(top: str) -> list[list[str]]:
    """List the commands that map what `flow` leaves, and count: for area, and for depth.

    Most of a design meets its clock easily and is mapped for area, which gives its resources; the paths that do not are
    mapped for depth.
    """
    resources, paths = COUNTS
    return [
        [*_map(_FOR_AREA), *_count("write_resources", top, resources)],
        [*_map(_FOR_DEPTH), *_count("write_paths", top, paths)],
    ]


def _count(function: str, top: str, counts: str) -> list[str]:
    netlist = f"netlist_{counts}"
    return [
        # cells, what the source calls its nets, and the primitives that stay without a reader
        "select w:* w:$* %d c:* %u =A:keep %u",
        f"write_json -selected {netlist}",
        f"{yosys.CALL} {__package__}.counting {function} {netlist} {top} {counts}",
    ]
