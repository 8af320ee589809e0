"""Slice multiplexers MUXF7 and MUXF8 in place of LUTs.

A mapper for six-input LUTs spends a LUT on choosing between LUTs. Vivado uses the slice's multiplexers for a LUT that
only chooses: a multiplexer of 8 inputs takes two LUTs, of 16 inputs four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

from .netlist import Bit, Cell
from .primitives import LUT_INPUTS

LEAST_INPUTS = 5
"""Fewest inputs of each selected LUT: smaller LUTs share a LUT6 otherwise."""

_SELECTS = {3: 1, 6: 2}
"""Select inputs of a multiplexer that fills a LUT, by the LUT's inputs."""


def in_slice_muxes(cells: Sequence[Cell], readers: Mapping[Bit, int]) -> tuple[frozenset[str], frozenset[str]]:
    """Names of LUTs that become MUXF7 and MUXF8, and names of the LUTs that they select.

    A LUT becomes a multiplexer if the LUT only chooses between two or four LUTs that nothing else reads. ``readers``
    counts the inputs and ports that read each net.
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
    # a selected LUT is no multiplexer: two stages at most
    return frozenset(muxes - chosen), frozenset(chosen)


def _data_inputs(cell: Cell) -> list[Bit]:
    """Nets between which a LUT chooses; empty for any other function."""
    pins = _data_pins(int(cell.parameters.get("INIT", "0"), 2), LUT_INPUTS[cell.kind])
    return [cell.inputs[f"I{pin}"][0] for pin in pins]


@cache
def _data_pins(table: int, inputs: int) -> tuple[int, ...]:
    selects = _SELECTS.get(inputs, 0)
    for chosen in combinations(range(inputs), selects) if selects else ():
        ways = ({pin: way >> position & 1 for position, pin in enumerate(chosen)} for way in range(2**selects))
        data = [pin for pin in (_projection(table, inputs, fixed) for fixed in ways) if pin is not None]
        if len(set(data)) == 2**selects:
            return tuple(data)
    return ()


def _projection(table: int, inputs: int, fixed: Mapping[int, int]) -> int | None:
    """The input that a function equals, straight or inverted, for fixed values of other inputs."""
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
    """Rows of a truth table with an input at 1, as a bit mask."""
    return sum(1 << row for row in range(2**inputs) if row >> pin & 1)
