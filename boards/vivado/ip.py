"""A core as an IP of Vivado's catalogue, and the scripts of a board's system with the IP."""

from __future__ import annotations

from fractions import Fraction

from ...golden.axi.register_map import SIGNATURE, RegisterMap
from ...golden.cores.core import CoreSpec
from ...golden.settings import settings_of
from ...hw.verilog import Emitted
from ..board import Board
from ..identity import revision
from . import tcl
from .debug import Analyser, capture_script, debug_settings
from .ipxact import ACCESS, component_xml, interfaces, vlnv
from .project import board_xdc, ooc_xdc

REGISTERS_AT = 0xA000_0000
"""Byte address of a core's registers in the processors' memory map: the first address of M_AXI_HPM0_FPD."""


def catalogue_files(spec: CoreSpec, emitted: Emitted) -> dict[str, str]:
    """The IP: ``component.xml``, the Verilog and Vivado's page; text by file name below ``ip``."""
    verilog, gui = f"src/{emitted.top}.v", f"xgui/{emitted.top}_v1_0.tcl"
    return {
        "ip/component.xml": component_xml(spec, emitted, verilog, gui),
        f"ip/{verilog}": emitted.verilog,
        f"ip/{gui}": _page(spec, emitted.top),
    }


def vivado_files(
    spec: CoreSpec, emitted: Emitted, board: Board, mhz: float, analyser: Analyser | None = None
) -> dict[str, str]:
    """Scripts for Vivado for a clock in MHz from the processor; text by file name below ``vivado``.

    The optional logic analyser observes the core's monitor.
    """
    timing, (_, *managers) = f"{emitted.top}_ooc.xdc", interfaces(spec)
    common = {"top": emitted.top, "part": board.part}
    ip = common | {"vlnv": vlnv(emitted.top), "verilog": f"src/{emitted.top}.v"}
    synthesis = {"clock": emitted.clock, "constraints": timing, "sources": f"../ip/src/{emitted.top}.v"}
    capture = {"vivado/capture.tcl": capture_script(analyser, emitted.top, board)} if analyser else {}
    return {
        **capture,
        "vivado/system.tcl": tcl.script(
            "system",
            common
            | {
                "board": board.name,
                "board_part": board.board_part,
                "board_connections": board.board_connections,
                "vlnv": vlnv(emitted.top),
                "pll": board.processor_clock.pll,
                "mhz": _decimal(mhz),
                "managers": str(len(managers)),
                "registers_at": f"0x{REGISTERS_AT:X}",
            }
            | debug_settings(analyser),
            ["set_board"],
        ),
        "vivado/package_ip.tcl": tcl.script(
            "package_ip",
            ip
            | {
                "revision": str(revision(spec)),
                "summary": spec.summary,
                "manager_names": " ".join(managers),
                "registers": _registers(spec.registers.map, spec.signature),
            },
        ),
        "vivado/synth_ooc.tcl": tcl.script("synth_ooc", common | synthesis),
        f"vivado/{timing}": ooc_xdc(emitted.clock, mhz),
        f"vivado/{board.name}.xdc": board_xdc(board),
    }


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


def _decimal(mhz: float) -> str:
    return f"{float(Fraction(str(mhz))):.6f}".rstrip("0").rstrip(".")


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
