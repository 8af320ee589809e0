"""Delays of UltraScale+ primitives and nets, for comparing the paths of two designs.

Those of the cells are typical of speed grade -2 and rounded; those of nets, for which there is no placement here, were
chosen on designs with a published clock. docs/estimate.md says how far the sum is off.

A net with many readers is long, wherever they are placed. RapidWright publishes the delays of the wires
(timing/ultrascaleplus/intersite_delay_terms.txt): a long one takes 43 + 3.6 x 12 ps for 12 rows of slices, or
43 + 3.5 x 14 ps for 12 columns, and the switch in front of it 43 ps; so 11 ps a slice either way.
"""

from __future__ import annotations

from functools import cache
from math import log2, sqrt

from .netlist import Cell
from .primitives import BLOCK_RAMS, DSPS, FLIP_FLOPS, LUT_MEMORIES, SHIFT_REGISTERS, ULTRA_RAMS

# in picoseconds
LUT = 80
WIDE_MUX = 60
CARRY_ENTRY = 100
"""From a LUT in front of a carry chain to any of its outputs."""
CARRY = 10
"""From carry to carry through four bits."""
CARRY_SUM = 90
"""From carry to sum."""
DSP_PRODUCT = 1500
"""From the operands of a DSP to its output, without registers in between."""
DSP_SUM = 450
"""From the addend or the cascade of a DSP to its output."""

_NET = 150
"""To one reader."""
_NET_FANOUT = 40
"""More for each doubling of the readers."""
_NEAR = 256
"""Readers up to which a net is as long as those that were fitted."""
_READERS_A_SLICE = 4
"""Readers of a net in a slice of 8 LUTs and 16 flip-flops, which they share with what does not read it."""
_SLICE = 11
"""From a slice to the next by long wires."""
_SETUP = 30
_CLOCK_TO_OUTPUT = 80
_LUT_MEMORY_TO_OUTPUT = 500
_RAM_TO_OUTPUT = 900
_RAM_SETUP = 250
_DSP_REGISTER_TO_OUTPUT = 200
_DSP_PRODUCT_REGISTER_TO_OUTPUT = 700
_DSP_SETUP = 200
_CLOCKS = ("CLK", "WCLK", "C", "G")


@cache
def net(readers: int) -> int:
    """Delay of a net from a cell to the farthest of its readers: picoseconds.

    The slices of the readers fill a square with the driver at its centre. Its corners are as many slices away as its
    side is long, half of them up or down and half across.
    """
    farther = max(0, sqrt(readers / _READERS_A_SLICE) - sqrt(_NEAR / _READERS_A_SLICE))
    return round(_NET + _NET_FANOUT * log2(max(readers, 1)) + _SLICE * farther)


def dsp_stages(cell: Cell, register: str) -> int:
    """Count the pipeline stages that a DSP has of a register, such as ``"M"``."""
    return int(cell.parameters.get(f"{register}REG", "1"), 2)


def launch(cell: Cell) -> int | None:
    """Delay from the clock to the outputs of a cell: picoseconds; None for a cell without a clock."""
    if cell.kind in FLIP_FLOPS:
        return _CLOCK_TO_OUTPUT
    if cell.kind in LUT_MEMORIES:
        return _LUT_MEMORY_TO_OUTPUT
    if cell.kind in BLOCK_RAMS or cell.kind in ULTRA_RAMS:
        return _RAM_TO_OUTPUT
    if cell.kind not in DSPS:
        return None
    if dsp_stages(cell, "P"):
        return _DSP_REGISTER_TO_OUTPUT
    if dsp_stages(cell, "M"):
        return _DSP_PRODUCT_REGISTER_TO_OUTPUT
    return DSP_PRODUCT + _DSP_REGISTER_TO_OUTPUT if dsp_stages(cell, "A") or dsp_stages(cell, "B") else None


def capture(cell: Cell, port: str) -> int | None:
    """Time before the clock at which an input of a cell has to be there: picoseconds; None without such a clock."""
    if port.startswith(_CLOCKS[:2]) or port in _CLOCKS:
        return None
    if cell.kind in FLIP_FLOPS or cell.kind in SHIFT_REGISTERS:
        return _SETUP
    if cell.kind in LUT_MEMORIES:
        return _SETUP if port.startswith(("D", "W")) and not port.startswith("DPRA") else None
    if cell.kind in BLOCK_RAMS or cell.kind in ULTRA_RAMS:
        return _RAM_SETUP
    if cell.kind not in DSPS or port in ("ACIN", "BCIN"):
        return None
    if port in ("A", "B", "D"):
        if dsp_stages(cell, port):
            return _DSP_SETUP
        if dsp_stages(cell, "M"):
            return _DSP_SETUP + DSP_PRODUCT - DSP_SUM
        return _DSP_SETUP + DSP_PRODUCT if dsp_stages(cell, "P") else None
    if port in ("C", "CARRYIN", "PCIN"):
        if port != "PCIN" and dsp_stages(cell, port):
            return _DSP_SETUP
        return _DSP_SETUP + DSP_SUM if dsp_stages(cell, "P") else None
    return _DSP_SETUP
