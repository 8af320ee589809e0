"""IP-XACT description of a core for Vivado's catalogue: ``component.xml`` of IEEE 1685-2009.

The spec, the emitted top module and the register map determine interfaces, address spaces, memory map, ports and files.
Elements of Vivado (families, taxonomies) are vendor extensions.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

from ...golden.axi.register_map import SIGNATURE, WORD, Access, Register
from ...golden.cores.core import CoreSpec
from ...hw.axi.bus import ADDRESS_PINS
from ...hw.verilog import Emitted
from ..identity import revision

SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
"""Namespace of the standard."""
XILINX = "http://www.xilinx.com"
"""Namespace of Vivado's extensions."""
VENDOR, LIBRARY, VERSION = "fabtune", "cores", "1.0"
"""Together with the top module's name these identify an IP in Vivado and PYNQ: ``fabtune:cores:CORE:1.0``."""
FAMILIES = ("zynquplus",)
"""Device families of the IP: the family of both boards."""
SYNTHESIS, SIMULATION = "xilinx_anylanguagesynthesis", "xilinx_anylanguagebehavioralsimulation"
_BUS_RANGE = 4096
"""Smallest address range, in bytes, of an interface in a Zynq's block design."""
ACCESS: Mapping[Access, str] = {
    "R": "read-only",
    "W": "write-only",
    "RW": "read-write",
    "W1C": "read-write",
    "W1S": "read-write",
}
MODIFIED = {"W1C": "oneToClear", "W1S": "oneToSet"}
"""The standard's words for a register's access."""


def vlnv(name: str) -> str:
    """Vendor, library, name and version of a core's IP; ``name`` is the top module's."""
    return f"{VENDOR}:{LIBRARY}:{name}:{VERSION}"


@dataclass(frozen=True)
class _Core:
    """A core with the files of the IP."""

    spec: CoreSpec
    emitted: Emitted
    verilog: str
    gui: str


def interfaces(spec: CoreSpec) -> list[str]:
    """Pin prefixes of a core's AXI interfaces; the register bus is the first.

    Vitis requires `s_axi_control` in lower case.
    """
    return sorted(dict.fromkeys(spec.buses.values()), key=lambda prefix: (prefix.startswith("m_axi"), prefix))


def component_xml(spec: CoreSpec, emitted: Emitted, verilog: str, gui: str) -> str:
    """Component description of a core as XML, the same on every machine.

    ``verilog`` and ``gui`` are the paths of the Verilog and of Vivado's settings page, relative to ``component.xml``.
    """
    for short, namespace in (("spirit", SPIRIT), ("xilinx", XILINX)):
        ET.register_namespace(short, namespace)
    core, (control, *managers) = _Core(spec, emitted, verilog, gui), interfaces(spec)
    root = ET.Element(_spirit("component"))
    _texts(root, vendor=VENDOR, library=LIBRARY, name=emitted.top, version=VERSION)
    _interfaces(_child(root, "busInterfaces"), core)
    spaces = _child(root, "addressSpaces")
    for prefix in managers:
        space = _child(spaces, "addressSpace")
        _texts(space, name=prefix, range=1 << ADDRESS_PINS, width=ADDRESS_PINS)
    memory_map = _child(_child(root, "memoryMaps"), "memoryMap")
    _texts(memory_map, name=control)
    _registers(_child(memory_map, "addressBlock"), core)
    _model(_child(root, "model"), core)
    _file_sets(_child(root, "fileSets"), core)
    _texts(root, description=spec.summary)
    name = _child(_child(root, "parameters"), "parameter")
    _texts(name, name="Component_Name")
    _child(name, "value", resolve="user", id="PARAM_VALUE.Component_Name", order="1").text = f"{emitted.top}_v1_0"
    _extensions(_child(root, "vendorExtensions"), core)
    ET.indent(root)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _interfaces(parent: ET.Element, core: _Core) -> None:
    control, *managers = interfaces(core.spec)
    for prefix in (control, *managers):
        interface = _interface(parent, prefix, "interface", "aximm")
        if prefix == control:
            _child(_child(interface, "slave"), "memoryMapRef", memoryMapRef=prefix)
        else:
            _child(_child(interface, "master"), "addressSpaceRef", addressSpaceRef=prefix)
        names = [pin.name for pin in core.emitted.pins if pin.name.startswith(f"{prefix}_")]
        _port_maps(interface, {name.removeprefix(f"{prefix}_").upper(): name for name in names})
        if parameters := core.spec.bus_parameters.get(prefix):
            _parameters(interface, prefix, parameters)
    buses = ":".join((control, *managers))
    _signal(
        parent, core.emitted.clock, "clock", "CLK", "slave", ASSOCIATED_BUSIF=buses, ASSOCIATED_RESET=core.emitted.reset
    )
    _signal(parent, core.emitted.reset, "reset", "RST", "slave", POLARITY="ACTIVE_LOW")
    _signal(parent, "interrupt", "interrupt", "INTERRUPT", "master", SENSITIVITY="LEVEL_HIGH")


def _interface(parent: ET.Element, name: str, library: str, kind: str) -> ET.Element:
    interface = _child(parent, "busInterface")
    _texts(interface, name=name)
    for tag, suffix in (("busType", ""), ("abstractionType", "_rtl")):
        _child(interface, tag, vendor="xilinx.com", library=library, name=f"{kind}{suffix}", version="1.0")
    return interface


def _signal(parent: ET.Element, pin: str, kind: str, logical: str, mode: str, **parameters: str) -> None:
    interface = _interface(parent, pin, "signal", kind)
    _child(interface, mode)
    _port_maps(interface, {logical: pin})
    _parameters(interface, pin, parameters)


def _parameters(interface: ET.Element, name: str, parameters: Mapping[str, object]) -> None:
    """Write the parameters of an interface; integers have Vivado's format ``long``."""
    written = _child(interface, "parameters")
    for key, value in parameters.items():
        parameter = _child(written, "parameter")
        _texts(parameter, name=key)
        kind = {"format": "long"} if isinstance(value, int) else {}
        _child(parameter, "value", id=f"BUSIFPARAM_VALUE.{name.upper()}.{key}", **kind).text = str(value)


def _port_maps(interface: ET.Element, ports: Mapping[str, str]) -> None:
    maps = _child(interface, "portMaps")
    for logical, physical in ports.items():
        port_map = _child(maps, "portMap")
        _texts(_child(port_map, "logicalPort"), name=logical)
        _texts(_child(port_map, "physicalPort"), name=physical)


def _registers(block: ET.Element, core: _Core) -> None:
    _texts(block, name="registers", baseAddress=0, range=_BUS_RANGE, width=8 * WORD)
    _texts(block, usage="register", access="read-write")
    for register in core.spec.registers.map:
        element = _child(block, "register")
        reset = core.spec.signature if register.name == SIGNATURE else register.reset
        _texts(element, name=register.name, description=register.summary, addressOffset=f"0x{register.offset:X}")
        _texts(element, size=8 * WORD, volatile="true" if register.access in ("R", "W1C", "W1S") else "false")
        _texts(element, access=ACCESS[register.access])
        _texts(_child(element, "reset"), value=f"0x{reset:X}")
        _fields(element, register)


def _fields(parent: ET.Element, register: Register) -> None:
    for field in sorted(register.fields, key=lambda item: item.low):
        element = _child(parent, "field")
        _texts(element, name=field.name, description=field.summary, bitOffset=field.low, bitWidth=field.width)
        _texts(element, access=ACCESS[register.access])
        if register.access in MODIFIED:
            _texts(element, modifiedWriteValue=MODIFIED[register.access])


def _model(model: ET.Element, core: _Core) -> None:
    views = _child(model, "views")
    for view, purpose in ((SYNTHESIS, "synthesis"), (SIMULATION, "simulation")):
        view_element = _child(views, "view")
        _texts(
            view_element,
            name=view,
            envIdentifier=f":vivado.xilinx.com:{purpose}",
            language="Verilog",
            modelName=core.emitted.top,
        )
        _texts(_child(view_element, "fileSetRef"), localName=f"{view}_view_fileset")
    view_element = _child(views, "view")
    _texts(view_element, name="xilinx_xpgui", envIdentifier=":vivado.xilinx.com:xgui.ui")
    _texts(_child(view_element, "fileSetRef"), localName="xilinx_xpgui_view_fileset")
    ports = _child(model, "ports")
    for pin in core.emitted.pins:
        port = _child(ports, "port")
        _texts(port, name=pin.name)
        wire = _child(port, "wire")
        _texts(wire, direction=pin.direction)
        if pin.width > 1:
            _texts(_child(wire, "vector"), left=pin.width - 1, right=0)
        kind = _child(_child(wire, "wireTypeDefs"), "wireTypeDef")
        _texts(kind, typeName="wire")
        for view in (SYNTHESIS, SIMULATION):
            _texts(kind, viewNameRef=view)


def _file_sets(parent: ET.Element, core: _Core) -> None:
    files = {f"{view}_view_fileset": (core.verilog, "verilogSource") for view in (SYNTHESIS, SIMULATION)}
    files["xilinx_xpgui_view_fileset"] = (core.gui, "tclSource")
    for name, (path, kind) in files.items():
        file_set = _child(parent, "fileSet")
        _texts(file_set, name=name)
        file = _child(file_set, "file")
        _texts(file, name=path, fileType=kind)
        if kind == "tclSource":
            _texts(file, userFileType="XGUI_VERSION_2")


def _extensions(parent: ET.Element, core: _Core) -> None:
    extensions = _child(parent, "coreExtensions", XILINX)
    families = _child(extensions, "supportedFamilies", XILINX)
    for family in FAMILIES:
        element = _child(families, "family", XILINX)
        element.set(f"{{{XILINX}}}lifeCycle", "Production")
        element.text = family
    _child(_child(extensions, "taxonomies", XILINX), "taxonomy", XILINX).text = "/Machine_Learning"
    _child(extensions, "displayName", XILINX).text = f"fabtune {core.emitted.top}"
    _child(extensions, "coreRevision", XILINX).text = str(revision(core.spec))


def _spirit(tag: str) -> str:
    return f"{{{SPIRIT}}}{tag}"


def _child(parent: ET.Element, tag: str, space: str = SPIRIT, /, **attributes: str) -> ET.Element:
    return ET.SubElement(parent, f"{{{space}}}{tag}", {_spirit(name): value for name, value in attributes.items()})


def _texts(parent: ET.Element, **texts: object) -> None:
    for tag, text in texts.items():
        _child(parent, tag).text = str(text)
