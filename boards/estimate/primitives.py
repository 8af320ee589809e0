"""Cost of each UltraScale+ primitive, and pins that invert for free."""

from __future__ import annotations

from .netlist import Cell

LUT_INPUTS = {"LUT1": 1, "LUT2": 2, "LUT3": 3, "LUT4": 4, "LUT5": 5, "LUT6": 6}
FLIP_FLOPS = frozenset(f"{kind}{edge}" for kind in ("FDRE", "FDSE", "FDCE", "FDPE") for edge in ("", "_1")) | {
    "LDCE",
    "LDPE",
}
CARRIES = frozenset({"CARRY4", "CARRY8"})
WIDE_MUXES = frozenset({"MUXF7", "MUXF8", "MUXF9"})
BLOCK_RAMS = {"RAMB18E2": 0.5, "RAMB36E2": 1.0}
ULTRA_RAMS = frozenset({"URAM288", "URAM288_BASE"})
# Yosys packs into the DSP48E1 of the 7-series; here a DSP48E1 stands for a DSP48E2.
DSPS = frozenset({"DSP48E1", "DSP48E2"})
SHIFT_REGISTERS = frozenset({"SRL16E", "SRLC16E", "SRLC32E"})
LUT_MEMORIES = {
    **dict.fromkeys(SHIFT_REGISTERS, 1),
    **dict.fromkeys(("CFGLUT5", "RAM16X1S", "RAM32X1S", "RAM64X1S", "RAM32X2S"), 1),
    **dict.fromkeys(("ROM16X1", "ROM32X1", "ROM64X1"), 1),
    **dict.fromkeys(("RAM16X1D", "RAM32X1D", "RAM64X1D", "RAM128X1S", "ROM128X1"), 2),
    **dict.fromkeys(("RAM128X1D", "RAM256X1S", "RAM32M", "RAM64M", "ROM256X1"), 4),
    **dict.fromkeys(("RAM256X1D", "RAM512X1S", "RAM32M16", "RAM64M8", "RAM64X8SW", "RAM32X16DR8"), 8),
}
# Clock buffers, pads and hard blocks outside the fabric are not counted.
UNCOUNTED = frozenset(
    {
        *("VCC", "GND", "IBUF", "IBUFDS", "IOBUF", "OBUF", "OBUFT", "OBUFDS"),
        *("BUFG", "BUFGCE", "BUFGCE_DIV", "BUFGCTRL", "BUFGMUX", "BUFG_PS", "PS8"),
        *("MMCME4_ADV", "MMCME4_BASE", "PLLE4_ADV", "PLLE4_BASE", "SYSMONE4", "STARTUPE3", "BSCANE2"),
    }
)
KNOWN = (
    LUT_INPUTS.keys() | FLIP_FLOPS | CARRIES | WIDE_MUXES | BLOCK_RAMS.keys() | ULTRA_RAMS | DSPS
    | LUT_MEMORIES.keys() | UNCOUNTED | {"INV"}
)  # fmt: skip

_FLIP_FLOP_INVERTIBLE = frozenset({"C", "G", "R", "S", "CLR", "PRE"})


def inverts(kind: str, port: str) -> bool:
    """Whether an inverter at this input pin costs nothing.

    A LUT absorbs the inverter, and a wide multiplexer swaps data inputs. A slice inverts clock, set and reset, but not
    clock enable. Block RAMs invert clock, enable and reset.
    """
    if kind in LUT_INPUTS:
        return True
    if kind in WIDE_MUXES:
        return port == "S"
    if kind in FLIP_FLOPS:
        return port in _FLIP_FLOP_INVERTIBLE
    if kind in BLOCK_RAMS:
        return port.startswith(("CLK", "EN", "RST"))
    return "CLK" in port


def memory_luts(cell: Cell, read: frozenset[int]) -> int:
    """LUTs of a LUT memory with used output nets ``read``.

    For simple dual-port memories Yosys knows only the eight-LUT RAM32M16 and RAM64M8. For up to three lanes Vivado
    takes RAM32M or RAM64M (four LUTs, one for writing), and for a single lane RAM64X1D.
    """
    if cell.kind not in ("RAM32M16", "RAM64M8"):
        return LUT_MEMORIES[cell.kind]
    lanes = sum(any(bit in read for bit in bits) for bits in cell.outputs.values())
    smallest = {"RAM32M16": 4, "RAM64M8": 2 if lanes == 1 else 4}[cell.kind]
    return smallest if lanes <= 3 else 8
