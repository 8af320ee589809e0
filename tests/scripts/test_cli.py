"""The command line as a user meets it: what it prints, what it writes, and one line for every mistake."""

import json

import numpy as np
import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_list_names_every_block_with_its_parameters(fabtune):
    status, out, _ = fabtune("list", "--json")
    listing = json.loads(out)
    assert status == 0
    assert list(listing) == list(BLOCKS)
    assert listing["pezo"]["parameters"]["scale.urng.bits"] == 8
    assert set(listing["pezo"]["presets"]) == {"pool", "otf8", "otf14"}
    status, out, _ = fabtune("list")
    assert status == 0
    assert all(name in out for name in BLOCKS)


@pytest.mark.parametrize("block", BLOCKS)
def test_emit_writes_the_verilog_and_the_parameters(fabtune, tmp_path, block):
    settings = ("--set", "network=digits") if block == "instantft" else ()  # another takes long
    status, out, _ = fabtune("emit", block, *settings, "--json")
    written = json.loads(out)
    assert status == 0
    assert names(tmp_path / "build" / block) == sorted(written["files"])
    assert f"module {block}(" in (tmp_path / "build" / block / f"{block}.v").read_text()
    assert json.loads((tmp_path / "build" / block / "spec.json").read_text())["block"] == block


@pytest.mark.parametrize("board", ["zcu102", "kv260"])
def test_emit_for_a_board_adds_constraints_and_scripts(fabtune, tmp_path, board):
    status, _, _ = fabtune("emit", "pezo", "--preset", "pool", "--board", board, "--mhz", 250, "-o", "core")
    assert status == 0
    assert names(tmp_path / "core") == sorted(
        ["pezo.v", "pezo_pool.mem", "spec.json", "synth_ooc.tcl", "project.tcl", "pezo_ooc.xdc", f"{board}.xdc"]
    )
    assert "-period 4.000" in (tmp_path / "core" / "pezo_ooc.xdc").read_text()


def test_the_memory_file_is_the_memory(fabtune, tmp_path):
    fabtune("emit", "pool", "-o", "p")
    words = [int(line, 16) for line in (tmp_path / "p" / "pool_pool.mem").read_text().split()]
    assert words == build(BLOCKS["pool"]).rom


def test_emit_keeps_what_is_there_unless_forced(fabtune, tmp_path):
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "urng.v").write_text("mine")
    (tmp_path / "o" / "notes.txt").write_text("mine too")
    status, _, err = fabtune("emit", "urng", "-o", "o")
    assert status == 2
    assert "o/urng.v exists: choose another folder with --output, or --force" in err
    assert names(tmp_path / "o") == ["notes.txt", "urng.v"]
    assert (tmp_path / "o" / "urng.v").read_text() == "mine"
    assert fabtune("emit", "urng", "-o", "o", "--force")[0] == 0
    assert names(tmp_path / "o") == ["notes.txt", "spec.json", "urng.v"]
    assert (tmp_path / "o" / "notes.txt").read_text() == "mine too"


def test_the_same_parameters_give_the_same_files(fabtune, tmp_path):
    fabtune("emit", "tile", "--set", "lanes=4", "--board", "kv260", "-o", "a")
    fabtune("emit", "tile", "--set", "lanes=4", "--board", "kv260", "-o", "b")
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_verify_reports_what_it_compared(fabtune, fast_simulator):
    status, out, _ = fabtune("verify", "urng", "--simulator", fast_simulator, "--words", 100, "--json")
    verdict = json.loads(out)
    assert status == 0
    assert verdict["mismatches"] == 0
    assert verdict["compared"] > 6000
    assert verdict["cycles"] > 800
    assert verdict["simulator"] == fast_simulator


def test_verify_fails_when_the_rtl_is_another(fabtune, fast_simulator, monkeypatch):
    import fabtune.sim.verify as module

    real = module.emit
    monkeypatch.setattr(module, "emit", lambda spec: real(build(BLOCKS["pool"], ["seed=1"])))
    status, out, err = fabtune("verify", "pool", "--simulator", fast_simulator, "--words", 50)
    assert status == 1
    assert "differ" in out
    assert "golden" in err


def test_waveforms_are_kept_and_never_replaced(fabtune, tmp_path, simulator):
    waves = ("verify", "urng", "--set", "n=3", "--words", 20, "--simulator", simulator, "--waves", "w.vcd")
    assert fabtune(*waves)[0] == 0
    assert (tmp_path / "w.vcd").stat().st_size > 1000
    status, _, err = fabtune(*waves)
    assert status == 2
    assert "w.vcd exists" in err


TARGETS = {
    # the table: most LUTs, FFs and BRAM36, most logic levels
    "urng --set bits=8": (34, 252, 0, 1),
    "urng --set bits=14": (34, 438, 0, 1),
    "pezo --preset otf8 --set replay=false": (52, 268, 0, 2),
    "pool": (12, 20, 2, 2),
    "perturb": (38, 17, 0, 3),
}


@pytest.mark.parametrize("design", TARGETS)
def test_estimates_are_within_what_was_promised(fabtune, design):
    status, out, _ = fabtune("estimate", *design.split(), "--json")
    found = json.loads(out)
    most_luts, most_ffs, most_bram, most_levels = TARGETS[design]
    assert status == 0
    assert found["resources"]["lut"] <= most_luts
    assert found["resources"]["ff"] <= most_ffs
    assert found["resources"]["bram36"] <= most_bram
    assert found["resources"]["dsp"] == found["resources"]["uram"] == 0
    assert found["logic_levels"] <= most_levels
    assert found["utilisation"]["lut"] == pytest.approx(100 * found["resources"]["lut"] / 274_080)
    assert found["raw"]["lut"] >= found["resources"]["lut"]


def test_estimate_takes_anyones_verilog(fabtune, tmp_path):
    (tmp_path / "mine.v").write_text(
        "module mine(input clk, input a, b, output reg q); always @(posedge clk) q <= a ^ b; endmodule\n"
    )
    status, out, _ = fabtune("estimate", "--verilog", "mine.v", "--top", "mine", "--board", "kv260", "--json")
    assert status == 0
    assert json.loads(out)["resources"] == {"lut": 1, "ff": 1, "bram36": 0, "uram": 0, "dsp": 0}


def test_compare_says_how_much_agrees_and_where_not(fabtune, tmp_path):
    spec = build(BLOCKS["urng"])
    numbers = spec.words_at(np.arange(20))
    np.savez(tmp_path / "good.npz", **{"o.number": numbers})
    numbers[7, 3] ^= 1
    np.savez(tmp_path / "bad.npz", **{"o.number": numbers})
    status, out, _ = fabtune("compare", "urng", "good.npz", "--json")
    assert status == 0
    assert json.loads(out)["agreed"] == json.loads(out)["compared"] == 620
    status, out, _ = fabtune("compare", "urng", "bad.npz")
    assert status == 1
    assert "619 of 620 numbers agree" in out
    assert "lane 3, word 7" in out


def test_doctor_finds_what_runs_these_tests(fabtune):
    status, out, _ = fabtune("doctor", "--json")
    found = json.loads(out)
    assert status == 0
    assert all(found[name]["found"] for name in ("python", "amaranth", "pyosys", "cocotb", "verilator", "g++", "make"))


MISTAKES = {
    "bogus": "No such command 'bogus'",
    "emit": "Missing argument 'BLOCK'",
    "emit nosuch": "there is no block 'nosuch'; there are: urng, scale",
    "emit urng --set bits=99": "bits = 99 is not in 4 to 16",
    "emit urng --set bits=abc": "'abc' is not an integer",
    "emit urng --set foo=1": "urng has no parameter 'foo'; it has: n, bits",
    "emit urng --set bits": "is not name=value",
    "emit pezo --set bits=8": "ambiguous in pezo: say scale.urng.bits or pool.bits",
    "emit scale --set mode=linear": "mode = 'linear' is not one of fraction, pow2, constant",
    "emit pezo --set replay=maybe": "replay = 'maybe' is neither true nor false",
    "emit urng --set seeds=1,x": "not integers with commas",
    "emit urng --preset x": "urng has no preset 'x'",
    "emit urng --board zedboard": "zedboard",
    "emit urng --top 9x": "'9x' is not a module name",
    "emit urng --board zcu102 --mhz 5000": "5000",
    "emit urng --output /dev/null": "is a file, not a folder",
    "emit urng --output /proc/nowhere": "/proc/nowhere",
    "emit tile --set pezo.replay=false": "pezo.replay must be true",
    "verify urng --simulator vcs": "choose one of verilator, icarus",
    "verify urng --words 0": "Invalid value for '--words'",
    "verify urng --waves nodir/w.vcd": "there is no folder nodir",
    "estimate": "either a BLOCK or --verilog",
    "estimate urng --verilog x.v": "either a BLOCK or --verilog",
    "estimate --verilog x.v": "--verilog needs --top NAME",
    "estimate --verilog x.v --top a": "no file 'x.v'",
    "estimate urng --board foo": "foo",
    "compare urng nofile.csv": "no file 'nofile.csv'",
    "table nope": "there is no table 'nope'; there are: pezo-3, pezo-4",
    "demo --output /dev/null": "is a file",
    "demo --simulator vcs": "choose one of",
}


def test_no_command_shows_the_help(fabtune):
    assert fabtune()[0] == 2


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)


def test_a_simulator_that_is_not_there_is_named_with_its_remedy(fabtune, monkeypatch):
    import fabtune.sim.simulator as module

    monkeypatch.setattr(module, "find", lambda simulator: None)
    status, _, err = fabtune("verify", "urng", "--simulator", "icarus")
    assert status == 2
    assert err == "fabtune: icarus is not installed: apt install iverilog\n"
