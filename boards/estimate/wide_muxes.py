"""Multiplexers behind LUTs that a slice has of its own: MUXF7 and MUXF8.

A mapper for six inputs takes a LUT to choose between LUTs. Where that is all it does, Vivado takes the slice's
multiplexers, and no LUT: one of 8 inputs is two LUTs, one of 16 four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

from .netlist import Bit, Cell
from .primitives import LUT_INPUTS

LEAST_INPUTS = 5
"""Inputs of each LUT that is chosen from: smaller ones share a LUT otherwise."""

_SELECTS = {3: 1, 6: 2}
"""Selects of a multiplexer that fills a LUT of so many inputs."""


def in_slice_muxes(cells: Sequence[Cell], readers: Mapping[Bit, int]) -> tuple[frozenset[str], frozenset[str]]:
    """Find LUTs that only choose between two or four LUTs, which nothing else reads.

    Parameters
    ----------
    cells : sequence of Cell
        LUTs of the netlist, and others.
    readers : mapping of Bit to int
        Inputs and ports that read a net.

    Returns
    -------
    muxes, chosen : frozenset of str
        Names of the LUTs that are MUXF7 and MUXF8, and of those in front of them.
    """
    drivers = {cell.outputs["O"][0]: cell for cell in cells if cell.kind in LUT_INPUTS}
    muxes: set[str] = set()
    chosen: set[str] = set()
    for cell in drivers.values():
        data = _data_inputs(cell)
        sources = [drivers.get(bit) for bit in data]
        if data and all(
            source is not None
            and LUT_INPUTS[source.kind] >= LEAST_INPUTS
            and readers[bit] == 1
            and source.name not in muxes
            for bit, source in zip(data, sources, strict=True)
        ):
            muxes.add(cell.name)
            chosen |= {source.name for source in sources if source is not None}
    # a LUT in front of a multiplexer is not one itself: there are two stages at most
    return frozenset(muxes - chosen), frozenset(chosen)


def _data_inputs(cell: Cell) -> list[Bit]:
    """Give the nets between which a LUT chooses, or none if it does something else."""
    pins = _data_pins(int(cell.parameters.get("INIT", "0"), 2), LUT_INPUTS[cell.kind])
    return [cell.inputs[f"I{pin}"][0] for pin in pins]


@cache
def _data_pins(table: int, inputs: int) -> tuple[int, ...]:
    selects = _SELECTS.get(inputs, 0)
    for chosen in combinations(range(inputs), selects) if selects else ():
        ways = ({pin: way >> place & 1 for place, pin in enumerate(chosen)} for way in range(2**selects))
        data = [pin for pin in (_projection(table, inputs, fixed) for fixed in ways) if pin is not None]
        if len(set(data)) == 2**selects:
            return tuple(data)
    return ()


def _projection(table: int, inputs: int, fixed: Mapping[int, int]) -> int | None:
    """Find the one input that a function gives, straight or inverted, while others are fixed."""
    rows = 2**2**inputs - 1  # each row of the table is a bit
    for pin, value in fixed.items():
        rows &= _ones(pin, inputs) if value else ~_ones(pin, inputs)
    for pin in (pin for pin in range(inputs) if pin not in fixed):
        straight = _ones(pin, inputs) & rows
        if table & rows in (straight, straight ^ rows):
            return pin
    return None


@cache
def _ones(pin: int, inputs: int) -> int:
    """Mark the rows of a table in which an input is 1."""
    return sum(1 << row for row in range(2**inputs) if row >> pin & 1)
