"""Count the primitives of a netlist, correct Yosys's counts towards Vivado's, and find the longest paths.

Functions that write files run in the processes that map the design, see `flow.mappings`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...golden.errors import UserError
from . import fanout, packing, paths
from .fanout import FanOut
from .netlist import Bit, Cell, Netlist, read_netlist
from .paths import TimingPath
from .primitives import (
    BLOCK_RAMS,
    CARRIES,
    DSPS,
    FLIP_FLOPS,
    KNOWN,
    LUT_INPUTS,
    LUT_MEMORIES,
    SHIFT_REGISTERS,
    ULTRA_RAMS,
    WIDE_MUXES,
    inverts,
    memory_luts,
)
from .wide_muxes import in_slice_muxes

Sinks = dict[Bit, list[tuple[Cell, str]]]

ERROR = "error"
"""Key of the message in a file without counts, because of an unknown primitive."""


def write_resources(_: Any, netlist: str, top: str, counts: str) -> None:
    """Write `count_resources` and `fanout` of a netlist file of Yosys, as JSON attributes of an `Estimate`."""

    def attributes(design: Netlist) -> dict[str, Any]:
        resources, raw = count_resources(design)
        with_reset, fan_outs = fanout.with_reset(design), most_loads(design)
        return {
            "resources": resources,
            "raw": raw,
            "with_reset": with_reset,
            "fan_outs": [asdict(net) for net in fan_outs],
        }

    _write(netlist, top, counts, attributes)


def write_paths(_: Any, netlist: str, top: str, counts: str) -> None:
    """Write `longest_paths` of a netlist file of Yosys, as JSON attributes of an `Estimate`."""

    def attributes(design: Netlist) -> dict[str, Any]:
        logic_levels, carry_cells, slowest = longest_paths(design)
        return {"logic_levels": logic_levels, "carry_cells": carry_cells, "slowest": asdict(slowest)}

    _write(netlist, top, counts, attributes)


def _write(netlist: str, top: str, counts: str, attributes: Callable[[Netlist], dict[str, Any]]) -> None:
    try:
        result = attributes(read_netlist(Path(netlist), top))
    except UserError as error:
        result = {ERROR: str(error)}
    Path(counts).write_text(json.dumps(result), encoding="utf-8")


def count_resources(netlist: Netlist) -> tuple[dict[str, float], dict[str, int]]:
    """Corrected counts and raw counts of a netlist: ``resources`` and ``raw`` of an `Estimate`.

    A `UserError` for a primitive of unknown cost on UltraScale+.
    """
    counts = Counter(cell.kind for cell in netlist.cells)
    if unknown := sorted(counts.keys() - KNOWN):
        name = next(cell.name for cell in netlist.cells if cell.kind == unknown[0])
        raise UserError(
            f"cell {name!r} of {netlist.top!r} is a {unknown[0]!r}, whose cost on UltraScale+ is unknown: "
            "give its source or replace it"
        )
    sinks = _sinks(netlist)
    absorbed, (muxes, chosen) = _absorbed(netlist, sinks), _in_slice_muxes(netlist, sinks)
    used = frozenset(bit for bit in sinks if isinstance(bit, int)) | netlist.port_outputs
    memories = [cell for cell in netlist.cells if cell.kind in LUT_MEMORIES]
    free = muxes | _in_carry_sites(netlist, sinks)
    logic = [cell for cell in netlist.cells if _is_logic(cell, absorbed) and cell.name not in free]
    alone = [cell for cell in logic if cell.name not in chosen and _may_share(cell, sinks)]
    pairs = packing.pair_luts([frozenset(cell.input_nets()) for cell in alone])
    flip_flops = sum(counts[kind] for kind in FLIP_FLOPS)
    pulled_out = sum(_pulls_out_register(cell, sinks, netlist.port_outputs) for cell in memories)
    resources: dict[str, float] = {
        "lut": len(logic) - len(pairs) + sum(memory_luts(cell, used) for cell in memories),
        "ff": flip_flops + pulled_out - len(_output_registers(netlist, sinks)),
        "bram36": sum(counts[kind] * size for kind, size in BLOCK_RAMS.items()),
        "uram": sum(counts[kind] for kind in ULTRA_RAMS),
        "dsp": sum(counts[kind] for kind in DSPS),
    }
    raw_luts = sum(counts[kind] for kind in (*LUT_INPUTS, "INV"))
    raw_luts += sum(counts[kind] * size for kind, size in LUT_MEMORIES.items())
    return resources, {"lut": raw_luts, "ff": flip_flops, **dict(sorted(counts.items()))}


def longest_paths(netlist: Netlist) -> tuple[int, int, TimingPath]:
    """Most LUTs on any path, most CARRY8 cells on any path, and the slowest path."""
    sinks = _sinks(netlist)
    return paths.longest(netlist, _absorbed(netlist, sinks) | _in_slice_muxes(netlist, sinks)[0])


def most_loads(netlist: Netlist) -> list[FanOut]:
    """Nets with most loads, see `fanout.most_loads`."""
    return fanout.most_loads(netlist, _absorbed(netlist, _sinks(netlist)))


def _sinks(netlist: Netlist) -> Sinks:
    sinks: Sinks = defaultdict(list)
    for cell in netlist.cells:
        for port, bits in cell.inputs.items():
            for bit in bits:
                sinks[bit].append((cell, port))
    return sinks


def _absorbed(netlist: Netlist, sinks: Sinks) -> frozenset[str]:
    inverters = (cell for cell in netlist.cells if cell.kind == "INV")
    return frozenset(cell.name for cell in inverters if _vanishes(cell, sinks, netlist.port_outputs))


def _in_slice_muxes(netlist: Netlist, sinks: Sinks) -> tuple[frozenset[str], frozenset[str]]:
    readers = {bit: len(cells) + (bit in netlist.port_outputs) for bit, cells in sinks.items()}
    return in_slice_muxes(netlist.cells, readers)


def _vanishes(inverter: Cell, sinks: Sinks, port_outputs: frozenset[int]) -> bool:
    return port_outputs.isdisjoint(inverter.outputs["O"]) and all(
        inverts(cell.kind, port) for cell, port in _readers(inverter, "O", sinks)
    )


def _readers(cell: Cell, output: str, sinks: Sinks) -> list[tuple[Cell, str]]:
    return [reader for bit in cell.outputs.get(output, ()) for reader in sinks[bit]]


def _is_logic(cell: Cell, absorbed: frozenset[str]) -> bool:
    return cell.kind in LUT_INPUTS or (cell.kind == "INV" and cell.name not in absorbed)


def _may_share(lut: Cell, sinks: Sinks) -> bool:
    """Whether the second output of this LUT's site is free.

    A LUT that feeds a carry chain or a wide multiplexer is placed with that cell, and the cell's outputs occupy the
    slice's second output.
    """
    return not any(
        (cell.kind in CARRIES and port == "S") or (cell.kind in WIDE_MUXES and port != "S")
        for cell, port in _readers(lut, "O", sinks)
    )


def _in_carry_sites(netlist: Netlist, sinks: Sinks) -> frozenset[str]:
    """LUTs that feed a carry chain's ``DI`` and share the site of the LUT at ``S`` of the same bit."""
    drivers = {cell.outputs["O"][0]: cell for cell in netlist.cells if cell.kind in LUT_INPUTS or cell.kind == "INV"}
    names = set()
    for carry in (cell for cell in netlist.cells if cell.kind in CARRIES):
        for select, data in zip(carry.inputs.get("S", ()), carry.inputs.get("DI", ()), strict=False):
            first, second = drivers.get(select), drivers.get(data)
            if first is None or second is None or len(sinks[data]) > 1 or data in netlist.port_outputs:
                continue
            if len({*first.input_nets(), *second.input_nets()}) <= packing.MAX_INPUTS:
                names.add(second.name)
    return frozenset(names)


def _output_registers(netlist: Netlist, sinks: Sinks) -> frozenset[str]:
    """Flip-flops that become a block RAM's output register: all readers of a port, with equal enable and reset."""
    names: set[str] = set()
    for memory in (cell for cell in netlist.cells if cell.kind in BLOCK_RAMS or cell.kind in ULTRA_RAMS):
        for port in (port for port in memory.outputs if port.startswith("D")):
            read = [bit for bit in memory.outputs[port] if sinks[bit] or bit in netlist.port_outputs]
            readers = [sinks[bit][0][0] for bit in read if len(sinks[bit]) == 1 and bit not in netlist.port_outputs]
            registers = [cell for cell in readers if cell.kind in ("FDRE", "FDSE")]
            controls = {(cell.kind, *(cell.inputs.get(pin) for pin in ("C", "CE", "R", "S"))) for cell in registers}
            if len(registers) == len(read) and len(controls) == 1:
                names |= {cell.name for cell in registers}
    return frozenset(names)


def _pulls_out_register(memory: Cell, sinks: Sinks, port_outputs: frozenset[int]) -> bool:
    """Whether Vivado adds a flip-flop after this shift register.

    Vivado keeps the last stage of a fixed-length shift register in a flip-flop. Yosys does so only for a length of 1
    more than a LUT holds; that flip-flop is already in the netlist.
    """
    if memory.kind not in SHIFT_REGISTERS:
        return False
    address = [bit for port, bits in memory.inputs.items() if port.startswith("A") for bit in bits]
    if any(isinstance(bit, int) for bit in address):
        return False
    if not port_outputs.isdisjoint(memory.outputs.get("Q", ())):
        return True
    readers = _readers(memory, "Q", sinks)
    if not readers:
        return False
    cell, port = readers[0]
    return not (
        len(readers) == 1
        and (cell.kind, port) == ("FDRE", "D")
        and [cell.inputs.get(name) for name in ("C", "CE")] == [memory.inputs.get(n) for n in ("CLK", "CE")]
    )
