"""The longest combinational paths of a netlist, in LUTs and in CARRY8 cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...golden.errors import UserError
from .netlist import Bit, Cell, Netlist
from .primitives import CARRIES, DSPS, LUT_INPUTS, LUT_MEMORIES, WIDE_MUXES

Source = tuple[Bit, int, int]
"""A bit that an output depends on, with the LUTs and the CARRY8 cells in between."""


def _memory_address(cell: Cell, output: str) -> list[Bit]:
    """Find the address at which a LUT memory's output reads; a constant one (a fixed shift register) gives no path."""
    if output in ("Q31", "Q15"):
        return []
    named = {"DPO": "DPRA", "O5": "I", "O6": "I"}.get(output, "A")
    prefix = f"ADDR{output[2]}" if output.startswith("DO") else named
    return [bit for port, bits in cell.inputs.items() if port.startswith(prefix) for bit in bits]


def _dsp_unregistered(cell: Cell) -> list[Bit]:
    """Find the data inputs of a DSP without an output register that reach its output in the same cycle."""

    def stages(name: str) -> int:
        return int(cell.parameters.get(name, "1"), 2)

    if stages("PREG"):
        return []
    open_ports = {"PCIN"} | {port for port in ("C", "CARRYIN") if not stages(f"{port}REG")}
    if not stages("MREG"):
        open_ports |= {port for port in ("A", "B", "D") if not stages(f"{port}REG")} | {"ACIN", "BCIN"}
    return [bit for port in sorted(open_ports) for bit in cell.inputs.get(port, ())]


def _carry_position(carries: Sequence[Cell]) -> dict[str, int]:
    """Find each CARRY4's place in its chain; the ones at places 2n and 2n+1 share a CARRY8."""
    by_carry_in = {cell.inputs["CI"][0]: cell for cell in carries if "CI" in cell.inputs}
    driven = {cell.outputs["CO"][-1] for cell in carries if "CO" in cell.outputs}
    position: dict[str, int] = {}
    for head in carries:
        if not driven.isdisjoint(head.inputs.get("CI", ())):
            continue
        cell: Cell | None = head
        place = 0
        while cell is not None and cell.name not in position:
            position[cell.name] = place
            place += 1
            cell = by_carry_in.get(cell.outputs["CO"][-1]) if "CO" in cell.outputs else None
    return position


def _carry_arcs(cell: Cell, place: int) -> Iterator[tuple[int, list[Source]]]:
    shared = cell.kind == "CARRY4" and place % 2 == 1
    entry: list[Source] = [(bit, 0, 0 if shared else 1) for bit in cell.inputs.get("CI", ())]
    entry += [(bit, 0, 1) for bit in cell.inputs.get("CYINIT", ()) + cell.inputs.get("CI_TOP", ())]
    select, data, sums, carries = ((cell.inputs | cell.outputs).get(port, ()) for port in ("S", "DI", "O", "CO"))
    for bit in range(8):
        own: list[Source] = [(source, 0, 1) for source in select[bit : bit + 1]]
        yield from ((net, entry + own) for net in sums[bit : bit + 1] if isinstance(net, int))
        entry = entry + own + [(source, 0, 1) for source in data[bit : bit + 1]]
        yield from ((net, entry) for net in carries[bit : bit + 1] if isinstance(net, int))


def _arcs(cell: Cell, place: int, absorbed: bool) -> Iterator[tuple[int, list[Source]]]:
    if cell.kind in CARRIES:
        yield from _carry_arcs(cell, place)
        return
    sources: list[Source]
    for port, nets in cell.outputs.items():
        if (cell.kind in LUT_INPUTS or cell.kind == "INV") and not absorbed:
            sources = [(bit, 1, 0) for bit in cell.input_nets()]
        elif cell.kind in WIDE_MUXES or cell.kind in LUT_INPUTS or cell.kind == "INV":
            sources = [(bit, 0, 0) for bit in cell.input_nets()]
        elif cell.kind in LUT_MEMORIES:
            sources = [(bit, 1, 0) for bit in _memory_address(cell, port)]
        elif cell.kind in DSPS:
            sources = [(bit, 0, 0) for bit in _dsp_unregistered(cell)]
        else:
            return
        for net in nets:
            if isinstance(net, int):
                yield net, sources


def longest(netlist: Netlist, absorbed: frozenset[str]) -> tuple[int, int]:
    """Find the longest paths between registers, memories and ports.

    Parameters
    ----------
    netlist : Netlist
        The flattened netlist.
    absorbed : frozenset of str
        Names of the inverters that vanish into the cells they drive, and of LUTs that are multiplexers of a slice.

    Returns
    -------
    tuple of int
        Most LUTs on any path, and most CARRY8 cells on any path; not necessarily the same path.
    """
    places = _carry_position([cell for cell in netlist.cells if cell.kind in CARRIES])
    arcs: dict[int, list[Source]] = {}
    owner: dict[int, str] = {}
    for cell in netlist.cells:
        for net, sources in _arcs(cell, places.get(cell.name, 0), cell.name in absorbed):
            arcs[net], owner[net] = sources, cell.name
    waiting = {net: sum(bit in arcs for bit, _, _ in sources) for net, sources in arcs.items()}
    readers: dict[Bit, list[int]] = defaultdict(list)
    for net, sources in arcs.items():
        for bit, _, _ in sources:
            readers[bit].append(net)
    ready = [net for net, count in waiting.items() if count == 0]
    levels: dict[Bit, tuple[int, int]] = {}
    for net in ready:
        luts = carries = 0
        for bit, lut, carry in arcs[net]:
            if isinstance(bit, int):
                before = levels.get(bit, (0, 0))
                luts, carries = max(luts, before[0] + lut), max(carries, before[1] + carry)
        levels[net] = luts, carries
        for reader in readers[net]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(ready) < len(arcs):
        loop = _loop(arcs, set(arcs) - set(ready))
        name = next((netlist.names[net] for net in loop if net in netlist.names), owner[loop[0]])
        raise UserError(f"combinational loop through {name!r} of {netlist.top!r}: break it with a register")
    most_luts = max((luts for luts, _ in levels.values()), default=0)
    return most_luts, max((carries for _, carries in levels.values()), default=0)


def _loop(arcs: dict[int, list[Source]], blocked: set[int]) -> list[int]:
    """Walk backwards from any blocked net: each waits for another blocked one, so the walk meets itself."""
    net, step = min(blocked), dict[int, int]()
    while net not in step:
        step[net] = len(step)
        net = min(bit for bit, _, _ in arcs[net] if isinstance(bit, int) and bit in blocked)
    return list(step)[step[net] :]
