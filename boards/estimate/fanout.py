"""Fan-out of a netlist: nets with most loads, and flip-flops with a set or reset."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from heapq import nsmallest

from .netlist import Bit, Cell, Netlist
from .primitives import BLOCK_RAMS, CARRIES, DSPS, FLIP_FLOPS, LUT_INPUTS, LUT_MEMORIES, ULTRA_RAMS, WIDE_MUXES

SHOWN = 10
"""Number of nets in an estimate."""

_CLOCKS = frozenset({"C", "G", "CLK", "WCLK"})
_RESETS = frozenset({"R", "S", "CLR", "PRE"})
_KINDS = (
    (LUT_INPUTS.keys() | {"INV"}, "LUT"),
    (CARRIES | WIDE_MUXES, "carry or MUXF"),
    (LUT_MEMORIES.keys(), "LUT memory"),
    (BLOCK_RAMS.keys() | ULTRA_RAMS, "RAM"),
    (DSPS, "DSP"),
)
# most named inputs in the name of an unnamed net
_MOST_NAMED = 2


@dataclass(frozen=True)
class FanOut:
    """A net and the pins it drives.

    Attributes
    ----------
    net : str
        Name in the source; for an unnamed net, the driver's kind and the nets that the driver reads.
    loads : int
        Driven pins. An absorbed inverter's loads count as loads of the inverter's input.
    pins : dict of str to int
        Driven pins by kind, the most frequent first: ``FF reset`` (set included), ``FF enable``, ``FF data``, ``LUT``,
        ``carry or MUXF``, ``LUT memory``, ``RAM`` (block and ultra), ``DSP``, ``port``, ``other``.
    """

    net: str
    loads: int
    pins: dict[str, int]


def with_reset(netlist: Netlist) -> int:
    """Number of flip-flops with a driven set or reset pin, synchronous or not."""
    flip_flops = (cell for cell in netlist.cells if cell.kind in FLIP_FLOPS)
    return sum(isinstance(bit, int) for cell in flip_flops for bit in _bits(cell, _RESETS))


def _bits(cell: Cell, pins: Set[str]) -> Iterator[Bit]:
    return (bit for pin, bits in cell.inputs.items() if pin in pins for bit in bits)


def most_loads(netlist: Netlist, absorbed: Set[str], number: int = SHOWN) -> list[FanOut]:
    """The ``number`` nets with most loads, without clocks, in descending order of loads.

    Inverters named in ``absorbed`` vanish into the driven cells.
    """
    pins: dict[int, Counter[str]] = defaultdict(Counter)
    inverted: list[Cell] = []
    clocks = set[Bit]()
    for cell in netlist.cells:
        if cell.name in absorbed:
            inverted.append(cell)
            continue
        for pin, bits in cell.inputs.items():
            if pin in _CLOCKS or pin.startswith("CLK"):
                clocks.update(bits)
                continue
            kind = _kind(cell, pin)
            for bit in bits:
                if isinstance(bit, int):
                    pins[bit][kind] += 1
    for bit in netlist.port_outputs:
        pins[bit]["port"] += 1
    for cell in inverted:
        (source,), (bit,) = cell.inputs["I"], cell.output_nets()
        if isinstance(source, int):
            pins[source] += pins.pop(bit, Counter())
            if bit in clocks:
                clocks.add(source)
    loads = ((-kinds.total(), bit) for bit, kinds in pins.items() if bit not in clocks)
    # among equal loads the net that comes first in the netlist: independent of names
    drivers = {bit: cell for cell in netlist.cells for bit in cell.output_nets()}
    return [
        FanOut(_name(netlist, drivers, bit), -count, dict(pins[bit].most_common()))
        for count, bit in nsmallest(number, loads)
    ]


def _kind(cell: Cell, pin: str) -> str:
    if cell.kind in FLIP_FLOPS:
        return "FF reset" if pin in _RESETS else "FF enable" if pin in ("CE", "GE") else "FF data"
    return next((kind for cells, kind in _KINDS if cell.kind in cells), "other")


def _name(netlist: Netlist, drivers: dict[int, Cell], bit: int) -> str:
    if bit in netlist.names:
        return netlist.names[bit]
    if (driver := drivers.get(bit)) is None:
        return "(input)"
    read = list(dict.fromkeys(netlist.names[net] for net in driver.input_nets() if net in netlist.names))
    of = ", ".join(read[:_MOST_NAMED]) + (", ..." if len(read) > _MOST_NAMED else "")
    return f"{driver.kind} of {of}" if read else driver.kind
