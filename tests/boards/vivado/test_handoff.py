"""The system as seen by PYNQ: pynqmetadata reads a .hwh built from the IP description and the script's calls.

The .hwh replaces Vivado's, with all that PYNQ reads: cores with interfaces, pins and registers; nets; addresses.
"""

import json
import shlex
import warnings
import xml.etree.ElementTree as ET
from functools import cache

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.packaging import core_package
from fabtune.boards.vivado.ip import REGISTERS_AT
from fabtune.boards.vivado.ipxact import SPIRIT
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec

from ...small_cores import ADAPTERS, ONE_STAGE, zostream

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pydantic warns about the library's field names
    from pynqmetadata.frontends import Metadata
    from pynqmetadata.views.runtime import RuntimeMetadataParser

CORES = {
    "instantft": InstantftSpec(**ADAPTERS),
    "zotrain": ZotrainSpec(**ONE_STAGE),
    "zostream": zostream(),
}
PROCESSOR = "zynq_ultra_ps_e"
MANAGER = "M_AXI_HPM0_FPD"
PINS = {
    PROCESSOR: {"pl_clk0": "O", "pl_resetn0": "O", "pl_ps_irq0": "I", "maxihpm0_fpd_aclk": "I"},
    "axi_intc": {"s_axi_aclk": "I", "s_axi_aresetn": "I", "intr": "I", "irq": "O"},
    "proc_sys_reset": {"slowest_sync_clk": "I", "ext_reset_in": "I", "peripheral_aresetn": "O"},
    "smartconnect": {"aclk": "I", "aresetn": "I"},
}
"""Scalar pins of vendor IPs by name, as used in fabtune's block designs."""
INTERFACES = {PROCESSOR: {MANAGER: "MASTER"}, "axi_intc": {"s_axi": "SLAVE"}}
CLOCKS = {
    f"PSU__{name}": value
    for clock in range(4)
    for name, value in {
        f"FPGA_PL{clock}_ENABLE": str(int(clock == 0)),
        f"CRL_APB__PL{clock}_REF_CTRL__SRCSEL": "IOPLL",
        f"CRL_APB__PL{clock}_REF_CTRL__DIVISOR0": "8",
        f"CRL_APB__PL{clock}_REF_CTRL__DIVISOR1": "1",
        f"CRL_APB__PL{clock}_REF_CTRL__ACT_FREQMHZ": "187.5",
    }.items()
}
"""Processor clocks to the fabric; the first is enabled."""
INTC_AT = 0xA001_0000
"""An address that `assign_bd_address` may choose."""


@cache
def package(name, board):
    """Files of a core for a board."""
    return core_package(CORES[name], BOARDS[board], ["vivado", "pynq"], mhz=187.5)


def handoff(component, calls, top="system"):
    """The .hwh of a design, from the core's ``component.xml`` and the commands of ``system.tcl``."""
    root = ET.Element("EDKSYSTEM", VIVADOVERSION="2023.2")
    ET.SubElement(root, "SYSTEMINFO", NAME=top, ARCH="zynquplus")
    ET.SubElement(root, "EXTERNALPORTS")
    ET.SubElement(root, "EXTERNALINTERFACES")
    modules = ET.SubElement(root, "MODULES")
    words = [shlex.split(call.replace("{", "'").replace("}", "'")) for call in calls]
    cells = {one[-1]: one[one.index("-vlnv") + 1] for one in words if one[0] == "create_bd_cell"}
    nets = [tuple(one[1:]) for one in words if one[0] == "connect_bd_net"]
    buses = [tuple(one[1:]) for one in words if one[0] == "connect_bd_intf_net"]
    (registers,) = (
        int(one[one.index("-offset") + 1], 0) for one in words if one[:2] == ["assign_bd_address", "-offset"]
    )
    made = {}
    for name, vlnv in cells.items():
        kind = vlnv.split(":")[2]
        full = vlnv if vlnv.count(":") == 3 else f"{vlnv}:1.0"
        one = ET.SubElement(modules, "MODULE", FULLNAME=f"/{name}", INSTANCE=name, MODTYPE=kind, VLNV=full)
        made[name] = one
        parameters = ET.SubElement(one, "PARAMETERS")
        for key, value in (CLOCKS if kind == PROCESSOR else {}).items():
            ET.SubElement(parameters, "PARAMETER", NAME=key, VALUE=value)
        ports, interfaces = ET.SubElement(one, "PORTS"), ET.SubElement(one, "BUSINTERFACES")
        if name == "core":
            _core(one, ports, interfaces, component)
            continue
        used = {pin.split("/")[1] for net in nets for pin in net if pin.split("/")[0] == name}
        for pin in sorted(used):
            way = PINS[kind].get(pin, "I")  # a clock input of a processor port
            ET.SubElement(ports, "PORT", NAME=pin, DIR=way)
        for interface, way in INTERFACES.get(kind, {}).items():
            _interface(interfaces, interface, way)
        if kind == PROCESSOR:
            for interface in sorted({bus[1].split("/")[1] for bus in buses if bus[1].startswith("processor/S_AXI")}):
                _interface(interfaces, interface, "SLAVE")
    for source, target in nets:
        _connect(made, source, target)
        _connect(made, target, source)
    at = {"core": ("s_axi_control", registers), "interrupts": ("s_axi", INTC_AT)}
    memory = ET.SubElement(made["processor"], "MEMORYMAP")
    for name, (interface, base) in at.items():
        if name in made:
            ET.SubElement(
                memory, "MEMRANGE", ADDRESSBLOCK="Reg", BASEVALUE=f"0x{base:X}", HIGHVALUE=f"0x{base + 0xFFF:X}",
                INSTANCE=name, MASTERBUSINTERFACE=MANAGER, MEMTYPE="REGISTER", SLAVEBUSINTERFACE=interface,
            )  # fmt: skip
    return ET.tostring(root, encoding="unicode")


def _interface(parent, name, way, vlnv="xilinx.com:interface:aximm:1.0"):
    one = ET.SubElement(parent, "BUSINTERFACE", NAME=name, TYPE=way, VLNV=vlnv)
    return ET.SubElement(one, "PORTMAPS")


def _connect(made, pin, other):
    name, port = pin.split("/")
    found = next(one for one in made[name].iter("PORT") if one.get("NAME") == port)
    connections = found.find("CONNECTIONS")
    if connections is None:
        connections = ET.SubElement(found, "CONNECTIONS")
    instance, port = other.split("/")
    ET.SubElement(connections, "CONNECTION", INSTANCE=instance, PORT=port)


def _core(module, ports, interfaces, component):
    """Pins, interfaces and registers of the core, from its description."""
    root = ET.fromstring(component.encode())

    def found(element, path):
        return element.findall("/".join(f"{{{SPIRIT}}}{tag}" for tag in path.split("/")))

    def text(element, path):
        (one,) = found(element, path)
        return one.text

    for port in found(root, "model/ports/port"):
        one = ET.SubElement(ports, "PORT", NAME=text(port, "name"), DIR=text(port, "wire/direction")[0].upper())
        for left in found(port, "wire/vector/left"):
            one.set("LEFT", left.text)
            one.set("RIGHT", "0")
    for bus in found(root, "busInterfaces/busInterface"):
        kind = found(bus, "busType")[0].get(f"{{{SPIRIT}}}name")
        if kind == "aximm":
            maps = _interface(interfaces, text(bus, "name"), "SLAVE" if found(bus, "slave") else "MASTER")
            for one in found(bus, "portMaps/portMap"):
                logical, physical = text(one, "logicalPort/name"), text(one, "physicalPort/name")
                ET.SubElement(maps, "PORTMAP", LOGICAL=logical, PHYSICAL=physical)
    blocks = ET.SubElement(module, "ADDRESSBLOCKS")
    for block in found(root, "memoryMaps/memoryMap/addressBlock"):
        one = ET.SubElement(
            blocks, "ADDRESSBLOCK", INTERFACE="s_axi_control", NAME=text(block, "name"), USAGE="register"
        )
        shown = ET.SubElement(one, "REGISTERS")
        for register in found(block, "register"):
            into = ET.SubElement(shown, "REGISTER", NAME=text(register, "name"))
            _property(into, ADDRESS_OFFSET=text(register, "addressOffset"), SIZE=text(register, "size"),
                      ACCESS=text(register, "access"), IS_ENABLED="true")  # fmt: skip
            fields = ET.SubElement(into, "FIELDS")
            for field in found(register, "field"):
                part = ET.SubElement(fields, "FIELD", NAME=text(field, "name"))
                _property(part, BIT_OFFSET=text(field, "bitOffset"), BIT_WIDTH=text(field, "bitWidth"))


def _property(parent, **values):
    for name, value in values.items():
        ET.SubElement(parent, "PROPERTY", NAME=name, VALUE=value)


@pytest.mark.parametrize(
    ("name", "board"),
    [
        ("zotrain", "zcu102"),
        *(pytest.param(name, "kv260", marks=pytest.mark.slow) for name in ("instantft", "zostream")),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["pynq"]], ids=["plain", "for PYNQ"])
def test_pynq_finds_the_core_its_registers_and_its_interrupt(name, board, arguments, tmp_path, run_script):
    files = package(name, board)
    installed = [BOARDS[board].board_part]
    status, said, calls = run_script("vivado/system.tcl", files, arguments, installed=installed)
    assert status == 0, said
    (tmp_path / "system.hwh").write_text(handoff(files["ip/component.xml"], calls))
    seen = RuntimeMetadataParser(Metadata(str(tmp_path / "system.hwh")))
    core, driver = seen.ip_dict["core"], json.loads(files["pynq/fabtune_core.json"])
    assert core["type"] in driver["bindto"]
    assert (core["phys_addr"], core["addr_range"]) == (REGISTERS_AT, 4096)
    registers = {register: one["address_offset"] for register, one in core["registers"].items()}
    assert registers == driver["registers"]
    assert registers == {one.name: one.offset for one in CORES[name].registers.map}
    busy = core["registers"]["status"]["fields"]["busy"]
    assert ((1 << busy["bit_width"]) - 1) << busy["bit_offset"] == driver["busy"]
    # the interrupt line with a device in PYNQ's images, and its controller
    if arguments:
        assert seen.interrupt_controllers == {"interrupts": {"parent": "", "index": 0, "raw_irq": 121}}
        assert seen.interrupt_pins["core/interrupt"]["controller"] == "interrupts"
        assert core["interrupts"]["interrupt"]["index"] == 0
    else:
        assert seen.interrupt_controllers == {}
