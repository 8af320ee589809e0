"""Delays of UltraScale+ primitives and nets in picoseconds, for comparing the paths of two designs.

Cell delays are typical of speed grade -2, rounded. Net delays, without a placement, were fitted to designs with a
published clock; docs/estimate.md gives the error of the sum.

Wide fan-out makes a net long, whatever the placement. RapidWright publishes wire delays
(timing/ultrascaleplus/intersite_delay_terms.txt): a long wire takes 43 + 3.6 x 12 ps for 12 rows of slices, or
43 + 3.5 x 14 ps for 12 columns, after a switch of 43 ps. Both directions come to 11 ps a slice.
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
"""From the LUT at a carry chain's input to any output of the chain."""
CARRY = 10
"""Carry in to carry out of four bits."""
CARRY_SUM = 90
"""Carry to sum."""
DSP_PRODUCT = 1500
"""Operands of a DSP to output, without registers in between."""
DSP_SUM = 450
"""Addend or cascade input of a DSP to output."""

_NET = 150
"""To a single reader."""
_NET_FANOUT = 40
"""Added for each doubling of the readers."""
_NEAR = 256
"""Readers up to which the fitted part alone gives a net's delay."""
_READERS_A_SLICE = 4
"""Readers of a net in a slice of 8 LUTs and 16 flip-flops, shared with other logic."""
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
    """Delay in ps of a net from the driver to the farthest of ``readers``.

    The readers' slices fill a square around the driver. A corner is as many slices away as the square's side is long,
    half of them vertically and half horizontally.
    """
    farther = max(0, sqrt(readers / _READERS_A_SLICE) - sqrt(_NEAR / _READERS_A_SLICE))
    return round(_NET + _NET_FANOUT * log2(max(readers, 1)) + _SLICE * farther)


def dsp_stages(cell: Cell, register: str) -> int:
    """Pipeline stages of a DSP's register such as ``"M"``."""
    return int(cell.parameters.get(f"{register}REG", "1"), 2)


def launch(cell: Cell) -> int | None:
    """Clock-to-output delay of a cell in ps; None for a cell without a clock."""
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
    """Setup time of a cell's input in ps, up to the first register; None for an input without a clocked register."""
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
