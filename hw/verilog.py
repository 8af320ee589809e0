"""From a spec to Verilog: the component, its port names, and the text that every reader accepts."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from .. import __version__
from ..golden.block import Spec
from ..golden.errors import UserError
from . import yosys
from .top import Port, TopWrapper


@dataclass(frozen=True)
class Emitted:
    """A block as text.

    Parameters
    ----------
    top : str
        Name of the top module.
    verilog, rtlil : str
        The same design, for other tools and for Yosys.
    ports : dict of str to Port
        Which wires carry each of the spec's streams.
    clock, reset : str
        Names of those two wires.
    reset_level : int
        The level at which the reset acts.
    """

    top: str
    verilog: str
    rtlil: str
    ports: dict[str, Port]
    clock: str
    reset: str
    reset_level: int


def component(spec: Spec) -> wiring.Component:
    """Build the RTL of a spec: the CamelCase class in the module of the same area and name."""
    module = importlib.import_module(f".{spec.area()}.{spec.name}", __package__)
    kind = "".join(part.capitalize() for part in spec.name.split("_"))
    built: wiring.Component = getattr(module, kind)(spec)
    return built


@lru_cache(maxsize=64)  # a core takes ten seconds, and is compiled, packaged and estimated
def emit(spec: Spec, top: str | None = None, block: wiring.Component | None = None) -> Emitted:
    """Generate a block.

    Parameters
    ----------
    spec : Spec
        Its parameters.
    top : str, optional
        Name of the top module, by default the block's.
    block : Component, optional
        The RTL, with the ports of `spec`; by default that of `component`.

    Returns
    -------
    Emitted
        Verilog-2005 that Verilator, Icarus, Yosys and slang read without a warning.

    Raises
    ------
    UserError
        If `top` is no name for a module.
    """
    top = top or spec.name
    if not re.fullmatch(r"[A-Za-z_]\w*", top, re.ASCII):
        raise UserError(f"{top!r} is not a module name: letters, digits and _, no digit first")
    wrapper = TopWrapper(block or component(spec), spec)
    text = rtlil.convert(wrapper, name=top, emit_src=False)
    return Emitted(
        top, _verilog(text, wrapper, spec, top), text, wrapper.ports, wrapper.clock, wrapper.reset, wrapper.reset_level
    )


def _verilog(text: str, wrapper: TopWrapper, spec: Spec, top: str) -> str:
    with tempfile.TemporaryDirectory(prefix="fabtune-") as name:
        folder = Path(name)
        (folder / "design.il").write_text(text, encoding="utf-8")
        yosys.run(
            [
                "read_rtlil design.il",
                f"hierarchy -top {top}",
                "proc",
                "flatten -separator _",
                # by itself a choice of several becomes a casez whose cases overlap
                "pmuxtree",
                "wreduce",
                "splitnets -driver",
                "opt_clean -purge",
                yosys.WIDEN,
                f"{yosys.ORDER} {' '.join(wrapper.signature.members)}",
                "write_verilog -noattr design.v",
            ],
            folder,
        )
        body = (folder / "design.v").read_text(encoding="utf-8").split("\n", 2)[2]
    # an initial block of its own for each register: Verilator warns of a declaration's value that a process changes
    body = re.sub(r"^(  reg (?:\[\d+:0\] )?)(\S+) += (.*);$", r"\1\2 ;\n  initial \2 = \3;", body, flags=re.MULTILINE)
    body = _without_idle_wires(body)
    # a signed product has a wire of its own: slang objects to one that is assigned to an unsigned wire. Its operands
    # keep their widths, which are those of a DSP.
    widths = {name: span for span, name in re.findall(r"^  wire (\[\d+:0\]) (\S+);$", body, flags=re.MULTILINE)}
    body = re.sub(
        r"^  assign (\w+)(\[\d+:0\])? = (\$signed\(.*\) \* \$signed\(.*\));$",
        lambda found: (
            f"  wire signed {found[2] or widths[found[1]]} product{found[1]};\n"
            f"  assign product{found[1]} = {found[3]};\n"
            f"  assign {found[1]}{found[2] or ''} = $unsigned(product{found[1]});"
        ),
        body,
        flags=re.MULTILINE,
    )
    for wire, attributes in wrapper.attributes.items():
        body = body.replace(f"  input {wire};", f"  {attributes}\n  input {wire};", 1)
    if unused := wrapper.unused(body):
        # by this name Verilator knows that the bits are left over on purpose
        body = body.replace("\nendmodule", f"\n  wire unused = &{{1'b0, {', '.join(unused)}}};\nendmodule", 1)
    settings = json.dumps(dataclasses.asdict(spec))
    return f"// {spec.name}: {spec.summary}\n// fabtune {__version__}, {settings}\n{body}"


def _without_idle_wires(body: str) -> str:
    """Drops wires that nobody reads, which Yosys leaves where it gave operands one width or emptied a hierarchy."""
    word = r"(\w+|\\\S+)"  # or one with a sign such as $ in it, up to the next blank
    wire, assign = rf"  wire (?:\[\d+:0\] )?{word} ?;", rf"  assign {word} +="
    while True:
        count = Counter(re.findall(word, body))
        names = re.findall(rf"^{wire}$", body, flags=re.MULTILINE)
        assigned = set(re.findall(rf"^{assign} ", body, flags=re.MULTILINE))
        idle = {name for name in names if count[name] == 1 + (name in assigned)}
        if not idle:
            return body
        lines = (re.match(rf"(?:{wire}|{assign} )", line) for line in body.split("\n"))
        kept = zip(body.split("\n"), lines, strict=True)
        body = "\n".join(line for line, found in kept if not found or not idle & {found[1], found[2]})
