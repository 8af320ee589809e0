"""Yosys commands that synthesise a design for UltraScale+, calibrated to Vivado's counts.

The steps follow ``synth_xilinx -family xcup``; docs/estimate.md lists the deviations.
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
"""File that `flow` reads first: the text of `primitives`."""

LEAST_SHIFT_REGISTER = 4
"""Fewest stages of a shift register that becomes a LUT."""

_LIBRARY = ("cells_sim.v", "cells_xtra.v")
# signs of a source that may instantiate primitives without their full names
_INCOMPLETE = ("`include", "``")

_MAPS = Path(__file__).with_name("maps")
# attribute of a multiplier whose source has `use_dsp`
_ASKED = "fabtune_use_dsp"
# bits: more than the operands of many products together
_WIDE_REGISTER = 512
# least bits of a block ROM with a registered read; Yosys's cost of an 18 Kib block RAM
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
# a comparator takes bits in pairs: both functions of a pair share a LUT
_COMPARED_INPUTS = 4

# Vivado restructures logic more than the default script of `synth_xilinx`
_FOR_AREA = "strash;dch,-f;if,-a,-K,6;mfs2"
_FOR_DEPTH = "strash;dch,-f;if,-K,6"


def files() -> Mapping[str, str]:
    """Text by name of the files that the commands of `flow` read."""
    maps = {file.name: file.read_text(encoding="utf-8") for file in sorted(_MAPS.glob("*.v*"))}
    if not (shipped := _yosys_xilinx()):
        return maps  # `hw.yosys` refuses
    # Block RAM contents do not change counts, but evaluating them takes a tenth of a core's synthesis time and half of
    # a small block's. Yosys looks for an include file in the working directory first.
    empty = (f"`define PARAMS_{name}" for name in _BLOCK_RAM_CONTENTS)
    contents = "\n".join([f'`include "{shipped / "brams_defs.vh"}"', *empty, ""])
    # RAM512X1S has 9 address bits; Yosys 0.70 says 16, and stops at a memory that is deeper than 256 words
    lut_memories = (shipped / "lutrams_xcu.txt").read_text(encoding="utf-8")
    lut_memories = re.sub(r'option "ABITS" 16 \{\s*abits 16;', 'option "ABITS" 9 {\n\t\tabits 9;', lut_memories)
    return maps | {"brams_defs.vh": contents, "lut_memories.txt": lut_memories}


def primitives(sources: Iterable[str]) -> str:
    """Text of the library `PRIMITIVES`: empty modules of the primitives that the maps or ``sources`` may instantiate.

    A sixth of Yosys's library: each module slows each pass a little, and reading the whole library takes half a second.
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
    package = importlib.util.find_spec("pyosys")
    return Path(package.origin).parent / "share" / "xilinx" if package and package.origin else None


def flow(reads: Sequence[str], top: str, parameters: Mapping[str, str] | None = None) -> list[str]:
    """Commands that read a design and synthesise it, up to `mappings`; ``reads`` are the commands that read the
    sources.

    ``parameters`` override the top module's.
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
    """Commands that map memories as `flow` does, a memory per module; ``read`` is the command that reads them."""
    return [
        read,
        yosys.NO_ZERO_CONTENTS,
        "proc",
        # else duplicate address logic counts as two addresses
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
        # else Yosys reads the module again once the pads are known
        "setattr -unset reprocess_after t:OBUFT",
        "deminout",
        # only names of registers are reported; each remaining name slows every clean-up
        "rename -hide w:* t:$*dff* %co1:+[Q] %d a:use_dsp a:use_dsp48 a:keep %u %u %d",
        "opt_expr",
        "opt_clean",
        # as Vivado, do not merge a register that has the attribute with an equal register
        "setattr -set keep 1 a:keep w:* %i %ci1:+[Q] t:$*dff* %i",
        # before the wires with the attribute vanish
        *_ask_for("yes"),
        *_ask_for("no"),
        # before `memory_dff` moves a register to the read port
        f"{synthesis_passes.SMALL_MEMORIES} {_LEAST_BLOCK_ROM}",
        "memory_map -rom-only a:fabtune_small",
        arithmetic_passes.ADD_SUB,
        # states keep the source's encoding
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
        # techmap gave every DSP pin separate wires
        "opt_clean",
        # `xilinx_dsp` visits a register once for each bit: exclude wide registers far from any product
        "select -set products t:DSP48E1 %x4:-[CLK,EN,SRST,ARST]",
        f"select t:$*dff* r:WIDTH>={_WIDE_REGISTER} %i @products %d %n",
        "xilinx_dsp -family xc7",
        "select -clear",
        "chtype -set $mul t:$__soft_mul",
    ]


def _ask_for(value: str) -> list[str]:
    """Commands that mark multipliers whose product, or the register after the product, has an attribute ``use_dsp``."""
    # one step through a renamed wire, one to the cell
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
        # the steps of ``memory -nomap`` that were not run before
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
        # a single round of ``opt -fast``: the mapping finds the rest
        "opt_expr -mux_undef -noclkinv",
        "opt_merge",
        "opt_dff",
        "opt_clean",
        f"xilinx_srl -fixed -minlen {LEAST_SHIFT_REGISTER}",
        "techmap -map +/techmap.v -map +/xilinx/cells_map.v",
        # registers and latches of the device, in the forms that `netlist` reads
        "dfflegalize -cell $_DFFE_?P?P_ 01 -cell $_SDFFE_?P?P_ 01 -cell $_DLATCH_?P?_ 01",
    ]


def _map(script: str) -> list[str]:
    return [
        # registers excluded: abc would split the mapping at each register type that abc knows
        f"abc -lut 6 -script +{script} t:$_*DFF* t:$_DLATCH* %u %n",
        # `netlist` reads `$lut` cells and drops unread cells; in Yosys the clean-up takes half as long as abc
        "opt_lut_ins",
    ]


def mappings(top: str) -> list[list[str]]:
    """Commands that map the design left by `flow` and count: a list for area, a list for depth.

    Most logic meets the clock easily, and Vivado maps it for area: the first list gives the resources. Critical paths
    are mapped for depth: the second list gives the paths.
    """
    resources, paths = COUNTS
    return [
        [*_map(_FOR_AREA), *_count("write_resources", top, resources)],
        [*_map(_FOR_DEPTH), *_count("write_paths", top, paths)],
    ]


def _count(function: str, top: str, counts: str) -> list[str]:
    netlist = f"netlist_{counts}"
    return [
        # cells, named nets of the source, and primitives that are kept without a reader
        "select w:* w:$* %d c:* %u =A:keep %u",
        f"write_json -selected {netlist}",
        f"{yosys.CALL} {__package__}.counting {function} {netlist} {top} {counts}",
    ]
