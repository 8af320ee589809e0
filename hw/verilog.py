"""Verilog of a block: build its component from the spec, name its ports, write text that every reader accepts."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import inspect
import json
import pickle
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.lib import wiring

from .. import __version__
from ..golden.block import Spec
from ..golden.cache import cached, digest_of, package_version, source_digest
from ..golden.errors import UserError
from ..golden.memories.plan import Device
from . import hierarchy_passes, naming, yosys
from .axi.bus import TopPin
from .identifiers import add_name, keyword_of
from .power_up import with_power_up
from .source_names import names_from_source
from .top import Port, TopWrapper

_ALL_MODULES = "// all modules are in this file, that of the top first:"


@dataclass(frozen=True)
class Emitted:
    """Emitted block.

    Parameters
    ----------
    top : str
        Name of the top module.
    verilog, rtlil : str
        The same design, for other tools and for Yosys.
    ports : dict of str to Port
        Ports of the top module that carry each of the spec's streams.
    pins : tuple of TopPin
        All ports of the top module.
    clock, reset : str
        Names of those two ports.
    reset_level : int
        The level at which the reset acts.
    """

    top: str
    verilog: str
    rtlil: str
    ports: dict[str, Port]
    pins: tuple[TopPin, ...]
    clock: str
    reset: str
    reset_level: int


def component(spec: Spec) -> wiring.Component:
    """Build the RTL of a spec: the CamelCase class in the module of the same area and name."""
    kind = "".join(part.capitalize() for part in spec.name.split("_"))
    if (found := spec.part("hw", spec.name, kind)) is None:
        raise UserError(f"{spec.name} has no RTL: there is no class {kind} in hw/{spec.area()}")
    built: wiring.Component = found(spec)
    return built


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Suspend the search for cycles: in a core's millions of nets it finds none, in a third to half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _short_zero_contents() -> Iterator[None]:
    """Let Amaranth write contents of a memory that are all zero as one digit, which Yosys extends to the width.

    Digit by digit they are half of a core's text and of the time to write it, and nobody can leave them out: without
    contents a memory has any at the start.
    """
    written = rtlil.ModuleEmitter.emit_memory

    def emit_memory(self: Any, index: int, cell: Any) -> None:
        width, words = cell.width, cell.depth
        if any(cell.init) or not width * words:
            written(self, index, cell)
            return
        self.builder.cell(
            "$meminit_v2",
            ports={"ADDR": self.sigspec(), "DATA": f"{width * words}'0", "EN": f"{width}'{'1' * width}"},
            parameters={
                "MEMID": self.memories[index].memid,
                "ABITS": 0,
                "WIDTH": width,
                "WORDS": words,
                "PRIORITY": 0,
            },
            src_loc=cell.src_loc,
        )

    rtlil.ModuleEmitter.emit_memory = emit_memory
    try:
        yield
    finally:
        rtlil.ModuleEmitter.emit_memory = written


@contextlib.contextmanager
def _registers_without_initial_value() -> Iterator[None]:
    """Let Amaranth write no initial value of a register without reset: once the core has run, it holds anything."""
    collected = rtlil.ModuleEmitter.collect_init_attrs

    def collect_init_attrs(self: Any) -> None:
        collected(self)
        without_reset = (self.netlist.signals[one] for one in self.module.signal_names if one.reset_less)
        found = {net.cell for value in without_reset for net in value if net.is_cell}
        for value, attributes in self.value_attrs.items():
            if {net.cell for net in value if net.is_cell} & found:
                attributes.pop("init", None)

    rtlil.ModuleEmitter.collect_init_attrs = collect_init_attrs
    try:
        yield
    finally:
        rtlil.ModuleEmitter.collect_init_attrs = collected


@lru_cache(maxsize=64)
def emit(spec: Spec, top: str | None = None, device: Device | None = None) -> Emitted:
    """Generate one of fabtune's own blocks, or read it from the cache.

    A core takes ten seconds, and is compiled, packaged and estimated. What is cached is named by the spec, its plan of
    memories, which several devices may share, the code of `golden` and `hw`, and the versions of Amaranth and Yosys.

    Parameters
    ----------
    spec : Spec
        Its parameters.
    top : str, optional
        Name of the top module, by default the block's.
    device : Device, optional
        Device whose blocks of RAM the plan of memories is for, by default one with all kinds.

    Returns
    -------
    Emitted
        See `generate`.

    Raises
    ------
    UserError
        If `top` is no name for a module.
    """
    top = _module_name(spec, top)
    hw = Path(__file__).parent
    tools = (package_version("amaranth"), package_version("pyosys"), __version__)
    sources = source_digest(hw, hw.parent / "golden", Path(inspect.getfile(type(spec))))
    kinds = spec.memory_plan(device or Device()).kinds
    key = digest_of(type(spec), spec, top, kinds, sources, *tools)

    def make(entry: Path) -> None:
        whole = generate(spec, device=device) if top == spec.name else _renamed(emit(spec, device=device), top)
        entry.write_bytes(pickle.dumps(whole))

    # as trustworthy as its neighbours: the cache holds programs that are run
    found: Emitted = pickle.loads(cached("verilog", f"{top}-{key}.pickle", make).read_bytes())
    return found


def generate(
    spec: Spec, top: str | None = None, block: wiring.Component | None = None, device: Device | None = None
) -> Emitted:
    """Generate a block, without the cache.

    Parameters
    ----------
    spec : Spec
        Its parameters.
    top : str, optional
        Name of the top module, by default the block's.
    block : Component, optional
        The RTL, with the ports of `spec`; by default that of `component`.
    device : Device, optional
        See `emit`.

    Returns
    -------
    Emitted
        Verilog-2005 that Verilator, Icarus, Yosys and slang read without a warning.

    Raises
    ------
    UserError
        If `top` is no name for a module.
    """
    top = _module_name(spec, top)
    with (
        without_garbage_collection(),
        _short_zero_contents(),
        _registers_without_initial_value(),
        names_from_source(),
    ):
        wrapper = TopWrapper(block or component(spec), spec)
        text = naming.convert(wrapper, top, spec.memory_plan(device or Device()))
    return Emitted(
        top,
        _verilog(text, wrapper, spec, top),
        text,
        wrapper.ports,
        wrapper.pins,
        wrapper.clock,
        wrapper.reset,
        wrapper.reset_level,
    )


def _renamed(found: Emitted, top: str) -> Emitted:
    """Give a design another name, with which all names of its modules begin."""
    old = re.escape(found.top)
    verilog = re.sub(
        rf"^(module |  ){old}(?=(?:_\w+)?(?:\(| \w+ \($))", rf"\g<1>{top}", found.verilog, flags=re.MULTILINE
    )
    verilog = verilog.replace(f"{_ALL_MODULES} {found.top}\n", f"{_ALL_MODULES} {top}\n", 1)
    text = re.sub(rf"^(module |  cell )\\{old}(?=[.\s])", rf"\g<1>\\{top}", found.rtlil, flags=re.MULTILINE)
    return dataclasses.replace(found, top=top, verilog=verilog, rtlil=text)


def _module_name(spec: Spec, top: str | None) -> str:
    """Name of the top module; refused where it is none."""
    top = top or spec.name
    if not re.fullmatch(r"[A-Za-z_]\w*", top, re.ASCII):
        raise UserError(f"{top!r} is not a module name: letters, digits and _, no digit first")
    if language := keyword_of(top):
        raise UserError(f"{top!r} is a keyword of {language}, and not a module name: choose another")
    return top


def _verilog(text: str, wrapper: TopWrapper, spec: Spec, top: str) -> str:
    """Write Verilog with Yosys, and put into it what Yosys has no pass for: the place of initial values."""
    with tempfile.TemporaryDirectory(prefix="fabtune-") as name:
        folder = Path(name)
        (folder / "design.il").write_text(text, encoding="utf-8")
        yosys.run(
            [
                "read_rtlil design.il",
                f"hierarchy -top {top}",
                "proc",
                # by itself a choice of several becomes a casez whose cases overlap
                "pmuxtree",
                yosys.NO_ZERO_CONTENTS,
                "wreduce",
                "splitnets -driver",
                "opt_clean -purge",
                # of a register behind a block of RAM, reset and enable in the read's own process, where synthesis looks
                yosys.BLOCK_LATCHES,
                yosys.WIDEN,
                # a wire with an initial value and without its register would stay
                "setattr -unset init w:* t:$*dff* %co1:+[Q] %d",
                # bits without a driver, of unnamed wires: the named ones of `WIDEN` stay whole
                "splitnets -driver w:$*",
                "opt_clean -purge",
                hierarchy_passes.SPLIT_COPIES,
                hierarchy_passes.UNUSED_PORTS,
                # modules of which nothing was left
                f"hierarchy -top {top}",
                yosys.SIGN_PRODUCTS,
                hierarchy_passes.PLAIN_NAMES,
                f"{yosys.ORDER} {' '.join(wrapper.signature.members)}",
                hierarchy_passes.UNUSED_BITS,
                # the generator's own attributes; those of memories and of the interface remain
                "setattr -unset hdlname",
                "setattr -mod -unset top -unset generator",
                yosys.KEEP_REGISTERS,
                *(
                    f'setattr -set {attribute} "{value}" {top}/w:{wire}'
                    for wire, attributes in wrapper.attributes.items()
                    for attribute, value in attributes.items()
                ),
                "write_verilog design.v",
            ],
            folder,
        )
        body = (folder / "design.v").read_text(encoding="utf-8").split("\n", 2)[2]
    modules = re.split(r"(?<=^endmodule\n)", body, flags=re.MULTILINE)
    body = with_power_up("".join(_initial_statements(_name_memories(module)) for module in modules))
    if len(modules) > 2:  # the last part is empty
        body = f"{_ALL_MODULES} {top}\n// verilator lint_off DECLFILENAME\n{body}"
        body += "// verilator lint_on DECLFILENAME\n"
    settings = json.dumps(dataclasses.asdict(spec))
    return f"// {spec.name}: {spec.summary}\n// fabtune {__version__}, {settings}\n{body}"


def _name_memories(body: str) -> str:
    """Name what Yosys gives a number: tables of a switch, and the register into which a module's memory is read."""
    assigned = set(re.findall(r"[A-Za-z]\w*", body))
    for table in dict.fromkeys(re.findall(r"\\\$auto\$proc_rom\S+ ", body)):
        body = body.replace(table, f"{add_name(assigned, 'lookup')} ")
    memories = set(re.findall(r"^  reg (?:\[\d+:0\] )?(\S+) +\[\d+:0\];$", body, flags=re.MULTILINE))
    names: dict[str, str] = {}
    for register, memory in re.findall(r"^ +(_\d+_) <= (\w+) *\[", body, flags=re.MULTILINE):
        if memory in memories and register not in names:
            names[register] = add_name(assigned, f"{memory}_read")
    return re.sub(r"\b_\d+_\b", lambda found: names.get(found[0], found[0]), body) if names else body


def _initial_statements(body: str) -> str:
    """Move the initial value of each register of a module from its declaration into one ``initial`` statement of all.

    Verilator warns of a value in a declaration where a process changes it, and Yosys takes long to read a statement for
    each.
    """
    values: list[str] = []

    def declared(found: re.Match[str]) -> str:
        values.append(f"    {found[2]} = {found[3]};\n")
        return f"{found[1]}{found[2]} ;"

    body = re.sub(r"^(  reg (?:\[\d+:0\] )?)(\S+) += (.*);$", declared, body, flags=re.MULTILINE)
    if not values:
        return body
    module, end = body.rsplit("endmodule", 1)
    return f"{module}  initial begin\n{''.join(values)}  end\nendmodule{end}"
