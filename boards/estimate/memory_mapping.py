"""Map memories without the surrounding design, many times faster than the whole synthesis."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...golden.cache import cached, digest_of, package_version, source_digest
from ...hw import yosys
from .flow import PRIMITIVES, files, memories_alone, primitives
from .primitives import BLOCK_RAMS, LUT_MEMORIES, ULTRA_RAMS

_WIRE = re.compile(r"^  wire (?:width (\d+) )?.*?(\S+)$", re.MULTILINE)
_MEMORY = re.compile(r"^(?:  attribute .*\n)*  memory .*\n", re.MULTILINE)
_NO_LOGIC = re.compile(r"^(?:  attribute .*\n)*  cell (?:\\|\$mem)(?:.*\n)*?  end\n", re.MULTILINE)
_NAME = re.compile(r"(?<=[ {])[\\$]\S+")
_KINDS = frozenset({*BLOCK_RAMS, *ULTRA_RAMS, *LUT_MEMORIES})


def wires_of(module: str) -> dict[str, str]:
    """Width of each wire of a module in RTLIL, by name."""
    return {name: width or "1" for width, name in _WIRE.findall(module)}


def alone(widths: Mapping[str, str], declaration: str, cells: Iterable[str]) -> str:
    """RTLIL of one memory without surrounding logic, with canonical names: equal memories give equal texts.

    ``widths`` are the module's wires from `wires_of`; ``declaration`` is the memory with attributes and without name;
    ``cells`` read, write and initialise the memory.
    """
    names: dict[str, str] = {}
    lines: list[str] = []
    for cell in cells:
        kind, *inside = cell.splitlines()
        lines.append(f"  cell {kind.split()[1]} $cell{len(lines)}")
        for line in inside:
            what, _, value = line.strip().partition(" ")
            port, _, signal = value.partition(" ")
            if what == "connect":
                signal = _NAME.sub(lambda match: names.setdefault(match[0], f"\\wire{len(names)}"), " " + signal)
            elif port == "\\MEMID":
                signal = r'"\\memory"'
            lines.append(f"    {what} {port} {signal}")
    wires = [f"  wire width {widths[name]} {new}" for name, new in names.items()]
    return "\n".join([*wires, f"{declaration} \\memory", *lines, "end", ""])


def in_its_module(module: str, declaration: str, cells: Iterable[str]) -> str:
    """RTLIL of one memory with the surrounding logic, which tells whether a read and a write can share a port.

    ``module`` is the module's RTLIL; ``declaration`` includes the memory's name.
    """
    logic = _MEMORY.sub("", _NO_LOGIC.sub("", module.partition("\n")[2]))
    return f"{logic[: logic.rindex('end')]}{declaration}\n{''.join(cells)}end\n"


def map_alone(memories: Sequence[str]) -> list[dict[str, int]]:
    """Primitive counts of each memory text of `alone` or `in_its_module`; empty for registers or LUTs. Cached."""
    texts = list(dict.fromkeys(memories))
    mapper = source_digest(Path(__file__).parent, Path(yosys.__file__))
    key = digest_of(mapper, *files().values(), package_version("pyosys"), *texts)

    def make(entry: Path) -> None:
        entry.write_text(json.dumps(_map(texts)))

    counts = json.loads(cached("memories", f"{key}.json", make).read_text()) if texts else []
    by_text = dict(zip(texts, counts, strict=True))
    return [by_text[text] for text in memories]


def _map(texts: Sequence[str]) -> list[dict[str, int]]:
    with tempfile.TemporaryDirectory(prefix="fabtune-memories-") as name:
        folder = Path(name)
        modules = "\n".join(f"module \\memory{number}\n{text}" for number, text in enumerate(texts))
        for file, text in {**files(), PRIMITIVES: primitives(()), "design": modules}.items():
            (folder / file).write_text(text, encoding="utf-8")
        yosys.run([*memories_alone("read_rtlil design"), "select memory*", "write_json -selected netlist"], folder)
        netlist = json.loads((folder / "netlist").read_text(encoding="utf-8"))["modules"]
    types = ([cell["type"] for cell in netlist[f"memory{number}"]["cells"].values()] for number in range(len(texts)))
    return [dict(sorted(Counter(kind for kind in kinds if kind in _KINDS).items())) for kinds in types]
