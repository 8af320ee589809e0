"""Memories of an emitted design, each with the primitives that it needs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .estimate.memory_mapping import alone, in_its_module, map_alone, wires_of
from .estimate.primitives import BLOCK_RAMS, ULTRA_RAMS

_BLOCKS = ("block", "ultra")
_CELL = re.compile(r"^  cell \$mem\w+_v2 (?:.*\n)*?  end\n", re.MULTILINE)
_DECLARATION = re.compile(
    r'^((?:  attribute \\ram_style "(\w+)"\n)?  memory width (\d+) size (\d+)) \\(\S+)', re.MULTILINE
)


@dataclass(frozen=True)
class Memory:
    """A memory of a design.

    Parameters
    ----------
    name : str
        Path with dots: top module, instances, and the memory's name.
    width, depth : int
        Bits of a word, and number of words.
    style : str
        Style attribute in the RTL: ``block``, ``ultra``, ``distributed``; empty if synthesis chooses.
    reads, writes : int
        Read ports and write ports.
    mode : str
        Data read at the address written in the same cycle: ``read first`` (the old word) or ``write first``; ``read
        only`` for a ROM; ``asynchronous`` for a read without clock; ``latch with reset`` for an asynchronous read of a
        block RAM, whose latch is the register with reset after the read. Several modes are separated by commas.
    primitives : tuple of (str, int)
        Primitives and their counts from synthesis with Yosys; empty for registers or logic.
    """

    name: str
    width: int
    depth: int
    style: str
    reads: int
    writes: int
    mode: str
    primitives: tuple[tuple[str, int], ...]

    @property
    def blocks(self) -> dict[str, float]:
        """Numbers of RAM blocks: ``bram36`` (a multiple of 0.5) and ``uram``."""
        return {
            "bram36": sum(count * BLOCK_RAMS.get(kind, 0) for kind, count in self.primitives),
            "uram": sum(count for kind, count in self.primitives if kind in ULTRA_RAMS),
        }

    @property
    def maps_to(self) -> str:
        """Text on the primitives from synthesis with Yosys."""
        logic = f"{self.width * self.depth} flip-flops" if self.writes else "LUTs"
        return ", ".join(f"{count} {kind}" for kind, count in self.primitives) or logic


def memories_of(rtlil: str) -> list[Memory]:
    """Memories of a design in RTLIL (see `hw.verilog.Emitted`), in the order of the text."""
    descriptions, texts = [], []
    for module in re.split(r"(?m)^module ", rtlil)[1:]:
        path = module.partition("\n")[0].lstrip("\\")
        cells = defaultdict(list)
        for cell in _CELL.findall(module):
            settings = dict(re.findall(r"parameter \\(\w+) (\S+)", cell))
            cells[settings["MEMID"].strip('"').lstrip("\\")].append((cell, settings))
        declarations = _DECLARATION.findall(module)
        widths = wires_of(module) if declarations else {}
        for declaration, style, width, depth, name in declarations:
            reads = [settings for cell, settings in cells[name] if "$memrd" in cell]
            writes = sum("$memwr" in cell for cell, _ in cells[name])
            mode = ", ".join(dict.fromkeys(_mode(port, style) for port in reads))
            descriptions.append((f"{path}.{name}", int(width), int(depth), style, len(reads), writes, mode))
            ports = _with_clock([cell for cell, _ in cells[name]], style)
            ported = "".join(cell for cell, _ in cells[name] if "$meminit" not in cell)
            addresses = set(re.findall(r"connect \\ADDR (.+)", ported))
            # keep the surrounding logic: it shows whether a read and a write exclude each other
            shared = writes and (len(reads) > 1 or len(addresses) == 1)
            texts.append(
                in_its_module(module, f"{declaration} \\{name}", ports) if shared else alone(widths, declaration, ports)
            )
    return [
        Memory(*description, tuple(primitives.items()))
        for description, primitives in zip(descriptions, map_alone(texts), strict=True)
    ]


def _with_clock(cells: Sequence[str], style: str) -> list[str]:
    """Give latched read ports of a block RAM the memory's clock, as if the latch were inside the block RAM."""
    if style not in _BLOCKS:
        return [*cells]
    clocked = [re.sub(r"(parameter \\CLK_ENABLE) \S+", r"\1 1", cell) for cell in cells]
    clocks = [clock for cell in cells for clock in re.findall(r"connect \\CLK (.*)", cell) if clock != "1'0"]
    # a memory without writes has no clock
    return [cell.replace("connect \\CLK 1'0", f"connect \\CLK {clocks[0]}") for cell in clocked] if clocks else clocked


def _mode(settings: Mapping[str, str], style: str) -> str:
    """Mode of a read port from its cell's parameters; the mask has a bit for each write port."""
    writers, _, transparent = settings["TRANSPARENCY_MASK"].rpartition("'")
    if settings["CLK_ENABLE"] in ("0", "1'0"):
        return "latch with reset" if style in _BLOCKS else "asynchronous"
    if writers == "0":
        return "read only"
    return "write first" if "1" in transparent else "read first"
