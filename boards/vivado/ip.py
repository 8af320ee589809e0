"""A core as an IP of Vivado's catalogue, and the scripts of a board's system with the IP."""

from __future__ import annotations

from ...golden.axi.register_map import SIGNATURE, RegisterMap
from ...golden.cores.core import CoreSpec
from ...golden.settings import settings_of
from ...hw.verilog import Emitted
from ..board import Board
from ..identity import revision
from . import tcl
from .debug import Analyser, capture_script, debug_settings
from .ipxact import ACCESS, component_xml, interfaces, vlnv
from .project import design_settings, synthesis_files

REGISTERS_AT = 0xA000_0000
"""Byte address of a core's registers in the processors' memory map: the first address of M_AXI_HPM0_FPD."""


def catalogue_files(spec: CoreSpec, emitted: Emitted) -> dict[str, str]:
    """Files of the IP: ``component.xml``, Verilog, and Vivado's settings page; text by file name below ``ip``."""
    verilog, gui = f"src/{emitted.top}.v", f"xgui/{emitted.top}_v1_0.tcl"
    return {
        "ip/component.xml": component_xml(spec, emitted, verilog, gui),
        f"ip/{verilog}": emitted.verilog,
        f"ip/{gui}": _page(spec, emitted.top),
    }


def vivado_files(
    spec: CoreSpec, emitted: Emitted, board: Board, mhz: float, analyser: Analyser | None = None
) -> dict[str, str]:
    """Scripts for Vivado; text by file name below ``vivado``. The processor provides the clock, in MHz.

    The optional logic analyser observes the core's monitor.
    """
    (_, *managers), top = interfaces(spec), emitted.top
    buses = {"managers": str(len(managers)), "registers_at": f"0x{REGISTERS_AT:X}"}
    system = design_settings(top, board, mhz, vlnv=vlnv(top)) | buses | debug_settings(analyser)
    ip = {
        "top": top,
        "part": board.part,
        "vlnv": vlnv(top),
        "verilog": f"src/{top}.v",
        "revision": str(revision(spec)),
        "summary": spec.summary,
        "manager_names": " ".join(managers),
        "registers": _registers(spec.registers.map, spec.signature),
    }
    files = {
        **({"capture.tcl": capture_script(analyser, top, board)} if analyser else {}),
        "system.tcl": tcl.script("system", system, ["set_board"]),
        "package_ip.tcl": tcl.script("package_ip", ip),
        **synthesis_files(top, emitted.clock, board, mhz, f"../ip/src/{top}.v"),
    }
    return {f"vivado/{name}": text for name, text in files.items()}


def kernel_script(spec: CoreSpec, emitted: Emitted, board: Board) -> str:
    """Script that packages the IP as a Vitis kernel, a file ``.xo``."""
    addresses = [(*item.registers, spec.address_buses.get(item.name)) for item in spec.registers.addresses]
    rows = [f"    {low} {high} {bus}" for low, high, bus in addresses if bus]
    listed = "\n".join(["", *rows, ""])
    return tcl.script("package_xo", {"top": emitted.top, "part": board.part, "addresses": listed})


def link_configuration(spec: CoreSpec, emitted: Emitted) -> str:
    """Configuration for the Vitis linker."""
    first = interfaces(spec)[1]
    return (
        f"[connectivity]\nnk={emitted.top}:1:core\n"
        "# The linker chooses the memories; to choose one yourself, name it as the platform does, for example:\n"
        f"# sp=core.{first}:HP0\n"
    )


def _page(spec: CoreSpec, name: str) -> str:
    lines = [
        f"# The page of {name} in Vivado: its configuration, which was fixed when it was generated.",
        "",
        "proc init_gui { IPINST } {",
        '    ipgui::add_param $IPINST -name "Component_Name"',
        '    set page [ipgui::add_page $IPINST -name "Configuration"]',
    ]
    for setting in settings_of(spec):
        name, _, value = setting.partition("=")
        lines.append(f"    ipgui::add_static_text $IPINST -name {{{name}}} -parent $page -text {{{name} = {value}}}")
    text = f"signature = 0x{spec.signature:08X}"
    lines.append(f"    ipgui::add_static_text $IPINST -name {{signature}} -parent $page -text {{{text}}}")
    return "\n".join([*lines, "}", ""])


def _registers(registers: RegisterMap, signature: int) -> str:
    rows = []
    for register in registers:
        fields = " ".join(f"{item.name} {item.low} {item.width} {{{item.summary}}}" for item in register.fields)
        reset = signature if register.name == SIGNATURE else register.reset
        access = ACCESS[register.access]
        entry = f"{register.name} 0x{register.offset:02X} {access} 0x{reset:X}"
        rows.append(f"    {entry} {{{register.summary}}} {{{fields}}}")
    return "\n" + "\n".join(rows) + "\n"
