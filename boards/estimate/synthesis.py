"""Run Yosys in child processes, which map a design and count the primitives.

An error inside pyosys ends the process, so synthesis never runs in the caller's process.
"""

from __future__ import annotations

import json
import re
import tempfile
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...golden.errors import UserError
from ...golden.files import read_text
from ...hw import yosys
from ...hw.yosys import YosysError
from .contents import contents_in_files
from .counting import ERROR
from .flow import COUNTS, PRIMITIVES, files, flow, mappings, primitives

_VHDL = (".vhd", ".vhdl")

Counts = dict[str, Any]
"""Attributes of an `Estimate`, by name."""


def _explain(failure: YosysError, top: str, sources: str, texts: Sequence[str]) -> UserError:
    error = str(failure)
    if f"Module `{top}' not found" in error:
        declared = set(re.findall(r"module `(?:\$abstract)?\\([^'$]+)'", failure.log))
        modules = sorted(
            declared.intersection(re.findall(r"\bmodule\s+(?:automatic\s+|static\s+)?\\?([\w$.]+)", "\n".join(texts)))
        )
        return UserError(f"no module {top!r} in {sources}: choose one of {', '.join(modules) or '(none there)'}")
    if unknown := re.search(r"Can't find object for defparam `(\w+)`", error):
        return UserError(f"{top!r} has no parameter {unknown[1]!r}")
    if missing := re.search(r"Module `(\S+)' referenced in module `(\S+)'.*is not part of the design", error):
        name, where = missing.groups()
        return UserError(f"module {name!r} of {where!r} is not in {sources}: add the file that declares it")
    if missing := re.search(r"Can't open include file `(.+?)'", error):
        return UserError(f"{sources} includes {missing[1]!r}, which is not beside it: give --include FOLDER")
    return UserError(f"Yosys cannot synthesise {sources}: {error}")


def _value(name: str, text: str) -> str:
    """A parameter's value in Yosys's syntax: a Verilog number; a string becomes a number."""
    if re.fullmatch(r"[A-Za-z_]\w*", name):
        if re.fullmatch(r"\d+|\d*'s?[bodhBODH][0-9a-fA-F_]+", text):
            return text
        if re.fullmatch(r"-\d+", text):
            return f"32'h{int(text) % 2**32:X}"
        if re.fullmatch(r'"[ -~]+"', text):
            return f"{8 * (len(text) - 2)}'h{text[1:-1].encode().hex()}"
    raise UserError(f"{name}={text} is no parameter: give NAME=NUMBER, or a string in quotes")


def _synthesise(
    reads: Sequence[str],
    texts: Sequence[str],
    top: str,
    sources: str,
    folder: Path,
    parameters: Mapping[str, str] | None = None,
) -> Counts:
    values = {name: _value(name, text) for name, text in (parameters or {}).items()}
    if not re.fullmatch(r"[A-Za-z_][\w$.]*", top):
        raise UserError(f"{top!r} is not a module name: give the plain name of the top module")
    for name, text in {**files(), PRIMITIVES: primitives(texts)}.items():
        (folder / name).write_text(text, encoding="utf-8")
    try:
        yosys.run(flow(reads, top, values), folder, mappings(top))
    except YosysError as failure:
        raise _explain(failure, top, sources, texts) from failure
    counts: Counts = {}
    for name in COUNTS:
        counts |= json.loads((folder / name).read_text(encoding="utf-8"))
    if ERROR in counts:
        raise UserError(counts[ERROR])
    return counts


def from_rtlil(rtlil: str, top: str) -> Counts:
    """Synthesise RTLIL text of Amaranth's ``rtlil.convert``."""
    with tempfile.TemporaryDirectory(prefix="fabtune-estimate-") as name:
        (Path(name) / "design").write_text(rtlil, encoding="utf-8")
        return _synthesise(["read_rtlil design"], [rtlil], top, "the RTLIL", Path(name))


def from_text(verilog: str, top: str) -> Counts:
    """Synthesise Verilog text of `emit`: modules without parameters."""
    with tempfile.TemporaryDirectory(prefix="fabtune-estimate-") as name:
        folder = Path(name)
        (folder / "design").write_text(contents_in_files(verilog, folder, "contents"), encoding="utf-8")
        return _synthesise(["read_verilog -sv design"], [verilog], top, "the Verilog", folder)


def from_verilog(
    sources: Sequence[Path], top: str, parameters: Mapping[str, str] | None = None, includes: Sequence[Path] = ()
) -> Counts:
    """Synthesise Verilog or SystemVerilog files, with overridden parameters of the top module and include folders.

    A `UserError` for a missing or VHDL file, a missing folder, or sources that Yosys cannot synthesise.
    """
    if not sources:
        raise UserError("no Verilog file given: name at least one")
    for file in sources:
        if not file.is_file():
            raise UserError(f"no file {str(file)!r}: give the path of a Verilog file")
        if file.suffix.lower() in _VHDL:
            raise UserError(
                f"{file.name} is VHDL, which Yosys does not read: convert it, as with ghdl synth --out=verilog"
            )
    for included in includes:
        if not included.is_dir():
            raise UserError(f"--include {str(included)!r} is no folder")
    texts = [read_text(file, errors="replace") for file in sources]
    with tempfile.TemporaryDirectory(prefix="fabtune-estimate-") as name:
        folder = Path(name)
        # parameters of the top module need deferred elaboration
        searched = ""
        for number, included in enumerate(includes):
            # a link in the working directory, as -I takes no name with quotes or spaces
            (folder / f"include{number}").symlink_to(included.resolve())
            searched += f"-I include{number} "
        read = f"read_verilog -sv {'-defer ' if parameters else ''}{searched}"
        reads = []
        for number, (file, text) in enumerate(zip(sources, texts, strict=True)):
            without_contents = contents_in_files(text, folder, f"contents{number}_")
            with file.open("rb") as start:
                marked = start.read(len(BOM_UTF8)) == BOM_UTF8  # Yosys rejects a byte order mark
            if (without_contents == text and not marked) or "`include" in text:
                reads.append(f'{read}"{file.resolve()}"')
                continue
            (folder / f"design{number}").write_text(without_contents, encoding="utf-8")
            reads.append(f"{read}design{number}")
        return _synthesise(reads, texts, top, ", ".join(file.name for file in sources), folder, parameters)
