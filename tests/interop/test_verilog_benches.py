"""Verilog test benches written from the blocks' pages alone: in Icarus and in Verilator, and with faults.

Of fabtune only the emitted Verilog takes part: ports, timing and expected words come from the page.
"""

import os
import subprocess
from pathlib import Path

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.hw.verilog import emit
from fabtune.sim.simulator import environment, find

from ..small_cores import with_slow

FOLDER = Path(__file__).parent / "verilog"
SETTINGS = {
    "urng": [],
    "perturb": ["lanes=5", "numbers=3", "number=Q1.7", "odd=true", "scale=U2.2", "eps_shift=6", "tag=7"],
    "nf4_dequant": ["lanes=3", "scales=5", "tag=7"],
    "softmax": [],
    "axi_read": ["data=64", "burst=16", "depth=64"],
    "axi_registers": ["signature=0x12345678"],
}
"""Settings of each bench."""
FAULTS = {
    "urng": (["taps=8,7,6,1"], "numbers differ"),
    "perturb": (["rounding=truncate"], "weights differ"),
    "nf4_dequant": ("17'h0b914", "values differ"),
    "softmax": (["classes=20"], "cycle of the first probability"),
    "axi_read": (["burst=32"], "border crossed"),
    "axi_registers": (["signature=0x12345679"], "a word differs"),
}
"""Other settings, or a Verilog constant reduced by 1, and the objection that each must raise."""


def run(name, verilog, simulator, folder):
    """Build a bench around a block's Verilog and run the bench; the last printed line."""
    source = folder / f"{name}.v"
    source.write_text(verilog)
    sources = [str(source), str(FOLDER / f"{name}.v")]
    env, program = dict(os.environ), folder / "Vbench"
    if simulator == "icarus":
        command = ["iverilog", "-g2005", "-Wall", "-I", str(FOLDER), "-s", "bench", "-o", str(program), *sources]
    else:
        env = environment("verilator", folder)
        lint = ["-Wno-fatal", "-Wno-lint", "-Wno-style"]
        command = [find("verilator"), "--binary", *lint, f"-I{FOLDER}", "--top-module", "bench", "--Mdir", str(folder)]
        command += sources
    built = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    start = ["vvp", "-n", str(program)] if simulator == "icarus" else [str(program)]
    done = subprocess.run(start, capture_output=True, text=True, check=False, cwd=folder, timeout=60)
    said = [line for line in done.stdout.splitlines() if line.startswith(("PASS", "FAIL"))]
    return said[-1] if said else done.stdout + done.stderr


@pytest.mark.parametrize("name", with_slow(SETTINGS, set(SETTINGS) - {"urng", "axi_read"}))
def test_a_bench_written_from_the_page_passes(name, fast_simulator, tmp_path):
    assert run(name, emit(build(BLOCKS[name], SETTINGS[name])).verilog, fast_simulator, tmp_path).startswith("PASS")


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_it_passes_in_the_other_simulator(name, tmp_path):
    assert run(name, emit(build(BLOCKS[name], SETTINGS[name])).verilog, "verilator", tmp_path).startswith("PASS")


@pytest.mark.parametrize("name", FAULTS)
def test_it_sees_another_block(name, fast_simulator, tmp_path):
    fault, objection = FAULTS[name]
    if isinstance(fault, str):
        verilog = emit(build(BLOCKS[name], SETTINGS[name])).verilog
        digits, value = fault.split("'h")
        assert fault in verilog
        verilog = verilog.replace(fault, f"{digits}'h{int(value, 16) - 1:0{len(value)}x}")
    else:
        settings = [one for one in SETTINGS[name] if one.partition("=")[0] not in {s.partition("=")[0] for s in fault}]
        verilog = emit(build(BLOCKS[name], [*settings, *fault])).verilog
    said = run(name, verilog, fast_simulator, tmp_path)
    assert said.startswith("FAIL")
    assert objection in said
