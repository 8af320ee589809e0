"""Vivado scripts and constraints, without Vivado."""

import re
import shutil
import subprocess

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.vivado.project import board_xdc, flow, ooc_xdc, period_ns
from fabtune.golden.errors import UserError

BASE = {
    "emitted_top": "urng",
    "clock_port": "clk",
    "is_core": False,
    "board_name": "zcu102",
    "mhz": 250.0,
    "verilog_name": "urng.v",
}
CORE = {"emitted_top": "pezo", "clock_port": "aclk", "is_core": True, "verilog_name": "pezo.v"}
CASES = {
    "plain on zcu102": {},
    "plain on kv260": {"board_name": "kv260"},
    "core on zcu102": CORE,
    "core on kv260": CORE | {"board_name": "kv260"},
}

TCLSH = shutil.which("tclsh")
needs_tclsh = pytest.mark.skipif(TCLSH is None, reason="tclsh is not installed: apt install tcl")


def emitted(**changes):
    """Output of `fabtune emit`: files for Vivado, and a Verilog file."""
    case = BASE | changes
    return flow(**case) | {case["verilog_name"]: ""}


def is_balanced(text):
    """True if braces and brackets outside comments and strings match."""
    closes, open_ones = {")": "(", "]": "[", "}": "{"}, []
    code = re.sub(r"(?m)^\s*#.*$", "", text)
    for letter in re.sub(r'"[^"]*"', "", code):
        if letter in "{[":
            open_ones.append(letter)
        elif letter in "}]" and (not open_ones or open_ones.pop() != closes[letter]):
            return False
    return not open_ones


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_files_are_balanced_and_whole(case):
    files = flow(**(BASE | case))
    top, board = (BASE | case)["emitted_top"], (BASE | case)["board_name"]
    assert set(files) == {"synth_ooc.tcl", "project.tcl", f"{top}_ooc.xdc", f"{board}.xdc"}
    for name, text in files.items():
        assert is_balanced(text), name
        assert text.endswith("\n")
        assert text.startswith("# ")


def test_the_balance_check_can_fail():
    text = flow(**BASE)["project.tcl"]
    assert not is_balanced(text.replace("}", "", 1))
    assert not is_balanced(text.replace("]", "}", 1))


@needs_tclsh
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_tcl_itself_finds_the_files_complete(tmp_path, case):
    for name, text in flow(**(BASE | case)).items():
        file = tmp_path / name
        file.write_text(text)
        question = f"puts [info complete [read [open {{{file}}}]]]"
        done = subprocess.run([TCLSH], input=question, capture_output=True, text=True, check=True)
        assert done.stdout == "1\n", name


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_ip_version_is_written_down(case):
    for name, text in flow(**(BASE | case)).items():
        assert not re.search(r"xilinx\.com:(ip|bd_rule):\w+:[\d.]+", text), name


def test_synthesis_names_part_top_clock_and_files():
    text = flow(**BASE)["synth_ooc.tcl"]
    for line in (
        "set top {urng}",
        "set part {xczu9eg-ffvb1156-2-e}",
        "set clock {clk}",
        "set sources {urng.v}",
        "set constraints {urng_ooc.xdc}",
        "synth_design -mode out_of_context -top $top -part $part",
    ):
        assert line in text.splitlines()


@needs_tclsh
@pytest.mark.parametrize(
    ("arguments", "done", "reports"),
    [
        ([], ["synth_design", "opt_design"], ["synth"]),
        (["place"], ["synth_design", "opt_design", "place_design", "phys_opt_design"], ["synth", "place"]),
        (
            ["route"],
            ["synth_design", "opt_design", "place_design", "phys_opt_design", "route_design"],
            ["synth", "place", "route"],
        ),
    ],
    ids=["synth", "place", "route"],
)
def test_synthesis_runs_to_the_step_asked_for(tmp_path, arguments, done, reports, run_script):
    status, said, commands = run_script("synth_ooc.tcl", emitted(), arguments)
    assert status == 0, said
    assert [c.split()[0] for c in commands if re.match(r"\w+_design\b", c)] == done
    here = tmp_path / "emitted here"
    assert f"read_verilog {{{{{here}/urng.v}}}}" in commands
    assert f"read_xdc -mode out_of_context {{{{{here}/urng_ooc.xdc}}}}" in commands
    assert "synth_design -mode out_of_context -top urng -part xczu9eg-ffvb1156-2-e" in commands
    assert "set_property HD.CLK_SRC BUFGCE_X0Y2 clk" in commands
    for kind, name in (("report_utilization", "utilization"), ("report_timing_summary", "timing")):
        wanted = [f"{kind} -file {{{here}/reports/urng_{step}_{name}.rpt}}" for step in reports]
        assert [c for c in commands if c.startswith(kind)] == wanted
    assert any("-hold" in c for c in commands) == (arguments == ["route"])
    assert ("hold slack 0.05 ns" in said) == (arguments == ["route"])


@needs_tclsh
def test_the_step_is_a_variable_too(run_script):
    status, _, commands = run_script("synth_ooc.tcl", emitted(), step="route")
    assert status == 0
    assert "route_design" in commands


@needs_tclsh
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slack": "-0.001"}, "ERROR: timing is not met after synth: setup slack -0.001 ns"),
        ({"slack": "none"}, "ERROR: no timed path after synth"),
        ({"slack": ""}, "ERROR: no timed path after synth"),
        ({"arguments": ["route"], "hold": "-0.01"}, "ERROR: timing is not met after route: hold slack -0.01 ns"),
        ({"arguments": ["burn"]}, "ERROR: no step called burn: choose one of synth place route"),
    ],
    ids=["too slow", "no path", "unconstrained", "hold", "wrong step"],
)
def test_synthesis_fails_with_a_status(change, message, run_script):
    status, said, _ = run_script("synth_ooc.tcl", emitted(), **change)
    assert status == 1
    assert message in said


@needs_tclsh
def test_timing_met_exactly_is_met(run_script):
    assert run_script("synth_ooc.tcl", emitted(), slack="0.000")[0] == 0


@needs_tclsh
def test_project_of_a_plain_block_is_out_of_context(tmp_path, run_script):
    status, said, commands = run_script("project.tcl", emitted())
    assert status == 0, said
    assert not [c for c in commands if "bd_cell" in c]
    assert "set_property top urng sources_1" in commands
    assert any("-mode out_of_context" in c for c in commands)
    timing = "{{" + f"{tmp_path}/emitted here/urng_ooc.xdc" + "}}"
    assert f"set_property USED_IN {{synthesis implementation out_of_context}} {timing}" in commands
    assert "no board files for xilinx.com:zcu102:part0:3.4" in said
    assert not [c for c in commands if c.startswith("set_property board_part")]


@needs_tclsh
def test_project_of_a_core_is_a_block_design(tmp_path, run_script):
    installed = ["xilinx.com:kv260_som:part0:1.4", "xilinx.com:zcu102:part0:3.4"]
    files = emitted(**CORE, board_name="kv260", mhz=187.5)
    status, said, commands = run_script("project.tcl", files, installed=installed)
    assert status == 0, said
    assert f"create_project pezo_kv260 {{{tmp_path}/emitted here/vivado}} -part xck26-sfvc784-2LV-c" in commands
    assert "set_property board_part xilinx.com:kv260_som:part0:1.4 project" in commands[:6]
    assert any("xilinx.com:kv260_carrier:som240_1_connector:1.3" in c for c in commands[:6])
    assert "create_bd_cell -type module -reference pezo core" in commands
    assert any(c.startswith("apply_bd_automation") for c in commands)
    assert any("PL0_REF_CTRL__SRCSEL IOPLL CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ 187.5 " in c for c in commands)
    assert "connect_bd_net processor/pl_clk0 core/aclk reset/slowest_sync_clk" in commands
    assert "connect_bd_net reset/peripheral_aresetn core/aresetn" in commands
    wrapper = f"{tmp_path}/emitted here/vivado/pezo_kv260.gen/sources_1/bd/system/hdl/system_wrapper.v"
    assert f"add_files -norecurse {{{{{wrapper}}}}}" in commands
    assert f"set_property is_enabled false {{{{{tmp_path}/emitted here/kv260.xdc}}}}" in commands


@needs_tclsh
def test_another_version_of_the_board_files_serves(run_script):
    installed = ["xilinx.com:zcu102:part0:3.9", "xilinx.com:zcu102:part0:3.10", "xilinx.com:zcu104:part0:3.4"]
    _, said, commands = run_script("project.tcl", emitted(), installed=installed)
    assert "WARNING" not in said
    assert "set_property board_part xilinx.com:zcu102:part0:3.10 project" in commands


@needs_tclsh
def test_project_does_not_overwrite(tmp_path, run_script):
    (tmp_path / "elsewhere" / "mine").mkdir(parents=True)
    status, said, commands = run_script("project.tcl", emitted(), ["mine"])
    assert status == 1
    assert "mine exists: delete it" in said
    assert commands == []


def test_clock_of_a_block():
    assert "create_clock -name clk -period 4.000 [get_ports {clk}]" in ooc_xdc("clk", 250).splitlines()


@pytest.mark.parametrize(
    ("mhz", "period"), [(125, "8.000"), (300, "3.333"), (150, "6.666"), (74.25, "13.468"), (1, "1000.000")]
)
def test_a_period_is_never_longer_than_asked_for(mhz, period):
    assert period_ns(mhz) == period
    assert float(period) * mhz <= 1000


@pytest.mark.parametrize("mhz", [0, -100, 0.999, 1001, float("nan"), float("inf")])
def test_frequencies_beyond_the_fabric_are_refused(mhz):
    with pytest.raises(UserError, match=rf"{mhz} MHz is not a clock for this fabric: give 1 to 1000"):
        flow(**(BASE | {"mhz": mhz}))


@pytest.mark.parametrize("name", ["", "../a.v", "a b.v", "a}.v", "[exec x]", "$top", "-top"])
@pytest.mark.parametrize("where", ["emitted_top", "clock_port", "verilog_name"])
def test_names_that_tcl_would_read_otherwise_are_refused(where, name):
    with pytest.raises(UserError, match="is no name for Vivado"):
        flow(**(BASE | {where: name}))


def test_board_constraints_of_the_zcu102():
    lines = board_xdc(BOARDS["zcu102"]).splitlines()
    assert "set_property -dict {PACKAGE_PIN G21 IOSTANDARD LVDS_25} [get_ports {clk_125_p}]" in lines
    assert "set_property -dict {PACKAGE_PIN AL7 IOSTANDARD DIFF_SSTL12} [get_ports {clk_300_n}]" in lines
    assert "create_clock -name clk_74_25 -period 13.468 [get_ports {clk_74_25_p}]" in lines
    assert "set_property -dict {PACKAGE_PIN AM13 IOSTANDARD LVCMOS33} [get_ports {cpu_reset}]" in lines
    assert "set_property -dict {PACKAGE_PIN AL12 IOSTANDARD LVCMOS33} [get_ports {led[7]}]" in lines


def test_board_constraints_of_the_kv260_hold_no_clock():
    text = board_xdc(BOARDS["kv260"])
    assert "create_clock" not in text
    assert "take the clock from the processor, pl_clk0" in text
    assert "PACKAGE_PIN C11 IOSTANDARD LVCMOS33} [get_ports {pmod_top[3]}]" in text
