"""Estimate what a design occupies on an UltraScale+ device, without vendor tools.

Yosys synthesises; this module corrects what it is known to count differently from Vivado. How well that works
is in docs/estimate.md.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...golden.block import Spec
from ...golden.cache import cached, digest_of, package_version, source_digest
from ...golden.errors import UserError
from ...hw import yosys
from ...hw.device import Device
from ...hw.verilog import emit
from . import packing, paths
from .netlist import Bit, Cell, Netlist, from_rtlil, from_verilog
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

Sinks = dict[Bit, list[tuple[Cell, str]]]


@dataclass(frozen=True)
class Estimate:
    """Expected resources and path lengths of a design.

    Attributes
    ----------
    resources : dict of str to float
        Exactly ``lut``, ``ff``, ``bram36``, ``uram`` and ``dsp``. Half a ``bram36`` is one 18 Kib memory.
    raw : dict of str to int
        ``lut`` (LUT memories included) and ``ff`` as Yosys mapped them, then the count of every primitive.
    logic_levels : int
        Most LUTs on any path between registers, memories and ports.
    carry_cells : int
        Most CARRY8 cells on any such path.
    """

    resources: dict[str, float]
    raw: dict[str, int]
    logic_levels: int
    carry_cells: int


def estimate_spec(spec: Spec, device: Device | None = None) -> Estimate:
    """Estimate one of fabtune's own blocks on a device, by default one with all kinds of memory."""
    emitted = emit(spec, device=device)
    return estimate_rtlil(emitted.rtlil, emitted.top)


def estimate_rtlil(rtlil: str, top: str) -> Estimate:
    """Estimate the design in RTLIL text, as Amaranth's ``rtlil.convert`` gives it.

    The result is cached by the text, the estimator's code and the version of Yosys.
    """
    key = digest_of(top, rtlil, source_digest(Path(__file__).parent, Path(yosys.__file__)), package_version("pyosys"))

    def make(entry: Path) -> None:
        entry.write_text(json.dumps(asdict(estimate_netlist(from_rtlil(rtlil, top)))))

    return Estimate(**json.loads(cached("estimates", f"{top}-{key}.json", make).read_text()))


def estimate_verilog(files: Sequence[Path], top: str) -> Estimate:
    """Estimate anyone's Verilog or SystemVerilog, as far as Yosys reads it."""
    return estimate_netlist(from_verilog(files, top))


def estimate_netlist(netlist: Netlist) -> Estimate:
    """Count the primitives of a synthesised netlist and apply the corrections."""
    counts = Counter(cell.kind for cell in netlist.cells)
    if unknown := sorted(counts.keys() - KNOWN):
        name = next(cell.name for cell in netlist.cells if cell.kind == unknown[0])
        raise UserError(
            f"cell {name!r} of {netlist.top!r} is a {unknown[0]!r}, whose cost on UltraScale+ is unknown: "
            "give its source or replace it"
        )
    sinks: Sinks = defaultdict(list)
    for cell in netlist.cells:
        for port, bits in cell.inputs.items():
            for bit in bits:
                sinks[bit].append((cell, port))
    inverters = (cell for cell in netlist.cells if cell.kind == "INV")
    absorbed = frozenset(cell.name for cell in inverters if _vanishes(cell, sinks, netlist.port_outputs))
    used = frozenset(bit for bit in sinks if isinstance(bit, int)) | netlist.port_outputs
    memories = [cell for cell in netlist.cells if cell.kind in LUT_MEMORIES]
    logic = [cell for cell in netlist.cells if _is_logic(cell, absorbed)]
    pairs = packing.pair_luts([frozenset(cell.input_nets()) for cell in logic if _may_share(cell, sinks)])
    flip_flops = sum(counts[kind] for kind in FLIP_FLOPS)
    resources: dict[str, float] = {
        "lut": len(logic) - len(pairs) + sum(memory_luts(cell, used) for cell in memories),
        "ff": flip_flops + sum(_pulls_out_register(cell, sinks, netlist.port_outputs) for cell in memories),
        "bram36": sum(counts[kind] * size for kind, size in BLOCK_RAMS.items()),
        "uram": sum(counts[kind] for kind in ULTRA_RAMS),
        "dsp": sum(counts[kind] for kind in DSPS),
    }
    raw_luts = sum(counts[kind] for kind in (*LUT_INPUTS, "INV"))
    raw_luts += sum(counts[kind] * size for kind, size in LUT_MEMORIES.items())
    raw = {"lut": raw_luts, "ff": flip_flops, **dict(sorted(counts.items()))}
    levels, carries = paths.longest(netlist, absorbed)
    return Estimate(resources, raw, levels, carries)


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

    A LUT in front of a carry chain or a wide multiplexer is placed by that cell, whose outputs occupy the
    slice's second output.
    """
    return not any(
        (cell.kind in CARRIES and port == "S") or (cell.kind in WIDE_MUXES and port != "S")
        for cell, port in _readers(lut, "O", sinks)
    )


def _pulls_out_register(memory: Cell, sinks: Sinks, port_outputs: frozenset[int]) -> bool:
    """Whether Vivado adds a flip-flop behind this shift register.

    It keeps the last stage of a fixed-length shift register in a flip-flop. Yosys does so only where the
    length is one more than a LUT holds; that flip-flop is already there.
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
