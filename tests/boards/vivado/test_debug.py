"""Logic analyser on a core's monitor: size, block design, and the script that reads it."""

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.memories import Memory
from fabtune.boards.packaging import core_package, selftest_of
from fabtune.boards.vivado.debug import Analyser, analyser_of, refuse_analyser
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.hw.axi.bus import TopPin
from fabtune.hw.verilog import emit

from ...small_cores import ONE_STAGE, instantft, with_slow, zostream, zotrain

TCLINT = Path(sys.prefix) / "tclint" / "bin" / "tclint"
INSTALLED = ["xilinx.com:kv260_som:part0:1.4", "xilinx.com:zcu102:part0:3.4"]
CORES = {
    "instantft": instantft(monitor=True),
    "zotrain": zotrain(monitor=True),
    "zostream": zostream(monitor=True),
}


@cache
def package(name, board="kv260"):
    return core_package(CORES[name], BOARDS[board], ["vivado"])


@pytest.mark.parametrize("name", with_slow(CORES))
def test_the_monitor_pins_are_kept_for_an_analyser(name):
    text = package(name)[f"ip/src/{name}.v"]
    marked = re.findall(r'\(\* mark_debug = "true" \*\)\n\s+output (?:reg |wire )*(?:\[\d+:0\] )?(\w+)', text)
    assert sorted(marked) == sorted(f"monitor_{pin}" for pin in CORES[name].monitored)
    assert "mark_debug" not in emit(replace(CORES[name], monitor=False)).verilog


@pytest.mark.parametrize("name", with_slow(CORES))
def test_the_analyser_is_on_the_monitor(name, run_script):
    status, said, commands = run_script("vivado/system.tcl", package(name), installed=INSTALLED)
    assert (status, said) == (0, "")
    assert "create_bd_cell -type ip -vlnv xilinx.com:ip:ila analyser" in commands
    pins = [pin for pin in emit(CORES[name], device=BOARDS["kv260"].fabric).pins if pin.name.startswith("monitor_")]
    assert [f"connect_bd_net core/{pin.name} analyser/probe{at}" for at, pin in enumerate(pins)] == [
        one for one in commands if "analyser/probe" in one and one.startswith("connect_bd_net")
    ]
    assert "connect_bd_net processor/pl_clk0 analyser/clk" in commands
    (values,) = [one for one in commands if one.endswith(" analyser") and one.startswith("set_property")]
    for at, pin in enumerate(pins):
        assert f"CONFIG.C_PROBE{at}_WIDTH {pin.width}" in values
    depth = analyser_of(CORES[name], pins, selftest_of(CORES[name])).depth
    assert f"CONFIG.C_NUM_OF_PROBES {len(pins)} CONFIG.C_DATA_DEPTH {depth} CONFIG.C_EN_STRG_QUAL 1 " in values
    assert "CONFIG.C_MONITOR_TYPE Native " in values


def test_a_core_without_a_monitor_has_no_analyser(run_script):
    files = core_package(ZotrainSpec(**ONE_STAGE), BOARDS["kv260"], ["vivado"])
    assert "vivado/capture.tcl" not in files
    assert "logic analyser" not in files["README.md"]
    _, _, commands = run_script("vivado/system.tcl", files, installed=INSTALLED)
    assert not any("ila" in one for one in commands)


def test_the_names_of_the_probes_come_with_the_bitstream(tmp_path, run_script):
    status, said, _ = run_script("vivado/system.tcl", package("zotrain"), ["build"], installed=INSTALLED)
    assert status == 0, said
    assert (tmp_path / "emitted here" / "out" / "zotrain.ltx").exists()


@pytest.mark.parametrize(
    ("board", "device"), [("kv260", "xck26_0"), pytest.param("zcu102", "xczu9_0", marks=pytest.mark.slow)]
)
def test_the_script_stores_what_is_written(board, device, tmp_path, run_script):
    files = package("zotrain", board) | {"out/zotrain.ltx": ""}
    status, said, commands = run_script("vivado/capture.tcl", files, cable=f"arm_dap_1 {device}")
    assert status == 0, said
    here = tmp_path / "emitted here"
    assert f"set_property PROBES.FILE {{{here}/vivado/../out/zotrain.ltx}} {device}" in commands
    valid, done = "system_i/core_monitor_valid", "system_i/core_monitor_done"
    for one in (
        "set_property CONTROL.DATA_DEPTH 32 hw_ila_1",
        "set_property CONTROL.TRIGGER_POSITION 0 hw_ila_1",
        f"set_property TRIGGER_COMPARE_VALUE neq8'b00000000 {valid}",
        "set_property CONTROL.CAPTURE_MODE BASIC hw_ila_1",
        "set_property CONTROL.CAPTURE_CONDITION OR hw_ila_1",
        f"set_property CAPTURE_COMPARE_VALUE neq8'b00000000 {valid}",
        f"set_property CAPTURE_COMPARE_VALUE eq1'b1 {done}",
        "wait_on_hw_ila -timeout 10 hw_ila_1",
        f"write_hw_ila_data -csv_file -force {{{here}/vivado/capture.csv}} hw_ila_data_1",
    ):
        assert one in commands
    assert "zotrain: waits for 32 samples: run the self-test now" in said
    order = [one.split()[0] for one in commands]
    assert order.index("run_hw_ila") < order.index("wait_on_hw_ila") < order.index("write_hw_ila_data")
    status, _, commands = run_script("vivado/capture.tcl", files, ["512", "60"], cable=f"arm_dap_1 {device}")
    assert status == 0
    assert "set_property CONTROL.DATA_DEPTH 512 hw_ila_1" in commands
    assert "wait_on_hw_ila -timeout 60 hw_ila_1" in commands


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"built": False}, "zotrain.ltx is not there: build the bitstream"),
        ({"arguments": ["many"]}, "ERROR: samples is many: give a whole number above 0"),
        ({"arguments": ["64", "0"]}, "ERROR: minutes is 0: give a whole number above 0"),
        ({"cable": "xczu9_0"}, "ERROR: there is no xck26* at the JTAG cable"),
        ({"ilas": ""}, "ERROR: no logic analyser answers: load the bitstream"),
        ({"full": "0"}, "ERROR: not 32 samples in 10 minutes: timed out"),
    ],
)
def test_the_script_fails_with_a_status(change, message, tmp_path, run_script):
    files = package("zotrain") | ({} if change.pop("built", True) is False else {"out/zotrain.ltx": ""})
    status, said, _ = run_script("vivado/capture.tcl", files, **change)
    assert status == 1
    assert message in said
    assert not (tmp_path / "emitted here/vivado/capture.csv").exists()


@pytest.mark.parametrize(
    ("name", "samples"), [("instantft", 256), ("zotrain", 32), pytest.param("zostream", 2048, marks=pytest.mark.slow)]
)
def test_a_self_test_fills_a_capture(name, samples):
    """The counts of tests/sim/captures/test_updates.py."""
    spec = CORES[name]
    analyser = analyser_of(spec, emit(spec).pins, selftest_of(spec))
    assert (analyser.samples, analyser.depth) == (samples, max(samples, 1024))


def test_an_analyser_that_does_not_fit_is_refused():
    pins = tuple(
        TopPin(f"monitor_{wire}", "out", width) for wire, width in (("valid", 8), ("data", 1024), ("beat", 16))
    )
    analyser = Analyser(pins, 4096)
    assert (analyser.depth, analyser.blocks) == (4096, 30 * 4)  # 1048 bits in columns of 36
    memory = Memory("core.block.x", 36, 1024, "block", 1, 1, "read first", (("RAMB36E2", 1),))
    refuse_analyser(analyser, [memory] * 24, BOARDS["kv260"])
    with pytest.raises(UserError, match="for 4096 samples needs 120 BRAM36, the core leaves 119 of the kv260's 144"):
        refuse_analyser(analyser, [memory] * 25, BOARDS["kv260"])


def test_the_page_says_what_to_type():
    page = package("zotrain")["README.md"]
    assert "vivado -mode batch -source vivado/capture.tcl" in page
    assert "fabtune compare zotrain vivado/capture.csv" in page


@pytest.mark.parametrize(
    ("script", "arguments", "made"),
    [
        ("vivado/system.tcl", ["build", "pynq"], "out/zotrain.xsa"),
        ("vivado/package_ip.tcl", [], "vivado"),
        ("vivado/synth_ooc.tcl", ["route"], "vivado/reports"),
        ("vivado/capture.tcl", [], "vivado/capture.csv"),
        ("vitis/package_xo.tcl", [], "vitis/zotrain.xo"),
    ],
)
def test_every_script_runs_in_a_folder_with_spaces(script, arguments, made, tmp_path, run_script):
    home = tmp_path / "my boards" / "fab tune"
    core, target = CORES["zotrain"], script.partition("/")[0]
    core = replace(core, monitor=target != "vitis")  # a kernel has no extra pins
    files = core_package(core, BOARDS["kv260"], [target]) | {"out/zotrain.ltx": ""}
    status, said, commands = run_script(script, files, arguments, installed=INSTALLED, home=home)
    assert status == 0, said
    assert (home / made).exists()
    assert any(str(home) in one for one in commands)


@pytest.mark.skipif(not TCLINT.exists(), reason="tclint is not installed: make style")
def test_the_scripts_have_nothing_that_tclint_reports(tmp_path):
    for name in ("vivado/system.tcl", "vivado/capture.tcl"):
        (tmp_path / name.replace("/", " ")).write_text(package("zotrain")[name])
    found = subprocess.run([TCLINT, "--ignore", "line-length", tmp_path], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")
