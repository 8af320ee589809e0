"""Verilog of a block: build the component of a spec, name its ports, and write portable text."""

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
from contextlib import AbstractContextManager
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
from .source_names import names_from_source, replaced
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
        The design, for other tools and for Yosys.
    ports : dict of str to Port
        Ports of the top module for each of the spec's streams.
    pins : tuple of TopPin
        All ports of the top module.
    clock, reset : str
        Names of the clock and reset ports.
    reset_level : int
        Active level of the reset.
    """

    top: str
    verilog: str
    rtlil: str
    ports: dict[str, Port]
    pins: tuple[TopPin, ...]
    clock: str
    reset: str
    reset_level: int

    @property
    def ports_vlt(self) -> str:
        """Verilator's configuration that exposes only the ports: with all inner wires a core takes minutes to build."""
        lines = [f'public_flat_rw -module "{self.top}" -var "{pin.name}"' for pin in self.pins]
        return "\n".join(["`verilator_config", *lines, ""])


def component(spec: Spec) -> wiring.Component:
    """Component of a spec: the CamelCase class in the module of the same area and name; UserError if none exists."""
    kind = "".join(part.capitalize() for part in spec.name.split("_"))
    if (component_class := spec.part("hw", spec.name, kind)) is None:
        raise UserError(f"{spec.name} has no RTL: there is no class {kind} in hw/{spec.area()}")
    built: wiring.Component = component_class(spec)
    return built


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection, which takes up to half of the time; a core's millions of nets contain no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _short_zero_contents() -> AbstractContextManager[None]:
    """Let Amaranth write all-zero memory contents as one digit, which Yosys extends.

    Written in full, they take half of a core's text and writing time. They cannot be omitted: without contents a memory
    starts undefined.
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

    return replaced(rtlil.ModuleEmitter, "emit_memory", emit_memory)


def _registers_without_initial_value() -> AbstractContextManager[None]:
    """Omit initial values of registers without reset, whose contents are arbitrary once the core has run."""
    collected = rtlil.ModuleEmitter.collect_init_attrs

    def collect_init_attrs(self: Any) -> None:
        collected(self)
        without_reset = (self.netlist.signals[signal] for signal in self.module.signal_names if signal.reset_less)
        cells = {net.cell for value in without_reset for net in value if net.is_cell}
        for value, attributes in self.value_attrs.items():
            if {net.cell for net in value if net.is_cell} & cells:
                attributes.pop("init", None)

    return replaced(rtlil.ModuleEmitter, "collect_init_attrs", collect_init_attrs)


@lru_cache(maxsize=64)
def emit(spec: Spec, top: str | None = None, device: Device | None = None) -> Emitted:
    """Generate one of fabtune's blocks, as `generate` does, or read it from the cache.

    A core takes ten seconds, and is needed to compile, package and estimate. The cache key covers the spec, its memory
    plan (shared by several devices), the code of `golden` and `hw`, and the versions of Amaranth and Yosys.
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

    # unpickling adds no risk, as the cache also holds executables
    emitted: Emitted = pickle.loads(cached("verilog", f"{top}-{key}.pickle", make).read_bytes())
    return emitted


def generate(
    spec: Spec, top: str | None = None, block: wiring.Component | None = None, device: Device | None = None
) -> Emitted:
    """Generate a block without the cache, as Verilog-2005 without warnings in Verilator, Icarus, Yosys and slang.

    Parameters
    ----------
    top : str, optional
        Name of the top module, by default the block's.
    block : Component, optional
        RTL with the ports of `spec`, by default `component` of `spec`.
    device : Device, optional
        Device for the memory plan, by default a device with all RAM types.

    Raises
    ------
    UserError
        If `top` is not a module name.
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


def _renamed(emitted: Emitted, top: str) -> Emitted:
    """Rename a design: its top module, and the prefix that its module names share."""
    old = re.escape(emitted.top)
    verilog = re.sub(
        rf"^(module |  ){old}(?=(?:_\w+)?(?:\(| \w+ \($))", rf"\g<1>{top}", emitted.verilog, flags=re.MULTILINE
    )
    verilog = verilog.replace(f"{_ALL_MODULES} {emitted.top}\n", f"{_ALL_MODULES} {top}\n", 1)
    text = re.sub(rf"^(module |  cell )\\{old}(?=[.\s])", rf"\g<1>\\{top}", emitted.rtlil, flags=re.MULTILINE)
    return dataclasses.replace(emitted, top=top, verilog=verilog, rtlil=text)


def _module_name(spec: Spec, top: str | None) -> str:
    top = top or spec.name
    if not re.fullmatch(r"[A-Za-z_]\w*", top, re.ASCII):
        raise UserError(f"{top!r} is not a module name: letters, digits and _, no digit first")
    if language := keyword_of(top):
        raise UserError(f"{top!r} is a keyword of {language}, and not a module name: choose another")
    return top


def _verilog(text: str, wrapper: TopWrapper, spec: Spec, top: str) -> str:
    """Write Verilog with Yosys, then move initial values in the text, as Yosys has no pass for this."""
    with tempfile.TemporaryDirectory(prefix="fabtune-") as name:
        folder = Path(name)
        (folder / "design.il").write_text(text, encoding="utf-8")
        yosys.run(
            [
                "read_rtlil design.il",
                f"hierarchy -top {top}",
                "proc",
                # without this pass a parallel multiplexer becomes a casez with overlapping cases
                "pmuxtree",
                yosys.NO_ZERO_CONTENTS,
                "wreduce",
                "splitnets -driver",
                "opt_clean -purge",
                # synthesis needs reset and enable of a block RAM's output register in the read process
                yosys.BLOCK_LATCHES,
                yosys.WIDEN,
                # an initial value would keep a wire that no register drives
                "setattr -unset init w:* t:$*dff* %co1:+[Q] %d",
                # removes undriven bits of unnamed wires; the named wires of `WIDEN` stay whole
                "splitnets -driver w:$*",
                "opt_clean -purge",
                hierarchy_passes.SPLIT_COPIES,
                hierarchy_passes.UNUSED_PORTS,
                # removes empty modules
                f"hierarchy -top {top}",
                yosys.SIGN_PRODUCTS,
                hierarchy_passes.PLAIN_NAMES,
                f"{yosys.ORDER} {' '.join(wrapper.signature.members)}",
                hierarchy_passes.UNUSED_BITS,
                # keeps only the attributes of memories and of the interface
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
    """Give names to objects that Yosys only numbers: lookup tables of a switch, and output registers of memories."""
    assigned = set(re.findall(r"[A-Za-z]\w*", body))
    for table in dict.fromkeys(re.findall(r"\\\$auto\$proc_rom\S+ ", body)):
        body = body.replace(table, f"{add_name(assigned, 'lookup')} ")
    memories = set(re.findall(r"^  reg (?:\[\d+:0\] )?(\S+) +\[\d+:0\];$", body, flags=re.MULTILINE))
    names: dict[str, str] = {}
    for register, memory in re.findall(r"^ +(_\d+_) <= (\w+) *\[", body, flags=re.MULTILINE):
        if memory in memories and register not in names:
            names[register] = add_name(assigned, f"{memory}_read")
    return re.sub(r"\b_\d+_\b", lambda match: names.get(match[0], match[0]), body) if names else body


def _initial_statements(body: str) -> str:
    """Move initial values from the register declarations of a module into one ``initial`` statement.

    Verilator warns of values in declarations of clocked registers, and Yosys reads many separate statements slowly.
    """
    values: list[str] = []

    def declared(match: re.Match[str]) -> str:
        values.append(f"    {match[2]} = {match[3]};\n")
        return f"{match[1]}{match[2]} ;"

    body = re.sub(r"^(  reg (?:\[\d+:0\] )?)(\S+) += (.*);$", declared, body, flags=re.MULTILINE)
    if not values:
        return body
    module, end = body.rsplit("endmodule", 1)
    return f"{module}  initial begin\n{''.join(values)}  end\nendmodule{end}"
