"""Memory model of the Verilog bench: bursts, IDs, stalls, and each checked rule."""

import re
import subprocess
from pathlib import Path

import pytest

from fabtune.boards.testbench.files import TEMPLATES
from fabtune.sim.simulator import find
from fabtune.sim.tool_folder import shell_lines

MANAGER = Path(__file__).with_name("manager.sv")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Simulate the managers with arguments; returns exit status and output."""
    folder = tmp_path_factory.mktemp("memory")
    sources = f"'{MANAGER}' '{TEMPLATES / 'fabtune_axi_memory.sv'}'"
    if find("icarus"):
        build, program = f"iverilog -g2012 -Wall -s manager -o bench {sources}", ["vvp", "bench"]
    else:
        flags = "--binary --timing -Wno-fatal -MAKEFLAGS OPT_FAST=-O0 --top-module manager -Mdir . -o bench"
        build, program = f"verilator {flags} {sources}", ["./bench"]
    subprocess.run(["sh", "-c", "\n".join([*shell_lines(), build])], cwd=folder, check=True, capture_output=True)

    def simulate(*arguments):
        done = subprocess.run(
            [*program, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.returncode, done.stdout

    return simulate


@pytest.mark.parametrize("latency", [0, 1, 40])
@pytest.mark.parametrize("stall", [0, 30, 80])
def test_what_axi_allows_is_right(run, stall, latency):
    status, out = run("+case=right", f"+stall={stall}", f"+latency={latency}")
    assert (status, "PASS" in out) == (0, True), out


def test_stalls_and_latency_cost_cycles(run):
    cycles = [
        int(re.search(r"PASS: (\d+) cycles", run(f"+stall={stall}", f"+latency={latency}")[1])[1])
        for stall, latency in ((0, 1), (0, 40), (80, 40))
    ]
    assert cycles[0] < cycles[1] < cycles[2]


@pytest.mark.parametrize(
    ("case", "message", "errors"),
    [
        ("page", "port 0: burst at 0000000000002ff8, 3 beats, crosses 4 KiB", 1),
        ("outside", "port 1: burst at 0000000000001ffc, 1 beats, is not in the memory", 2),
        ("narrow", "port 0: burst at 0000000000002000 is narrow, not incrementing or not aligned", 1),
        ("fixed", "port 0: burst at 0000000000002000 is narrow", 1),
        ("unaligned", "port 0: burst at 0000000000002002 is narrow", 1),
        ("last", "port 0: wlast at beat 0 of the burst at 0000000000002000", 1),
        ("changed", "port 0: what was on offer changed before it was taken", 1),
        ("fell", "port 0: what was on offer changed before it was taken", 1),
    ],
)
def test_what_axi_forbids_is_counted_and_said(run, case, message, errors):
    status, out = run(f"+case={case}")
    assert status == 0, out
    assert message in out
    assert f"ERRORS: {errors}\n" in out
