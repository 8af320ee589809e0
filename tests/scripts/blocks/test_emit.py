"""`fabtune emit`: written and kept files, refusals."""

import json

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build, settings_of

from ...small_cores import ADAPTERS, ONE_STAGE, SMALLER, options, with_slow, words, zostream


def pairs(option, values):
    return [word for value in values for word in (option, value)]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("block", with_slow(BLOCKS))
def test_emit_writes_the_verilog_and_the_parameters(fabtune, tmp_path, block):
    settings = {
        "instantft": words(ADAPTERS),
        "zotrain": words(ONE_STAGE),
        "zostream": settings_of(zostream()),
    }.get(block, SMALLER.get(block, "").split())
    # generated already: hw/test_verilog reads the same text
    status, out, _ = fabtune("emit", block, *pairs("--set", settings), "--top", block, "--board", "kv260", "--json")
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


@pytest.mark.slow
def test_without_a_board_the_memories_are_those_of_the_estimate(fabtune, tmp_path):
    small = ("--preset", "tiny", "--set", "columns=2", "--set", "network=64 fc6 relu fc10")
    core = ("zotrain", *small, "--set", "cut_rows=4096")
    for board in (("--name", "mine"), ("--name", "mine", "--board", "kv260")):
        assert fabtune("emit", *core, *board, "-o", "-".join(("core", *board[3:])))[0] == 0
    default, kv260 = ((tmp_path / name / "zotrain_mine.v").read_text() for name in ("core", "core-kv260"))
    assert ['ram_style = "ultra"' in text for text in (default, kv260)] == [False, True]
    assert json.loads(fabtune("estimate", "urng", "--json")[1])["board"] == "zcu102"


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


def test_a_second_run_replaces_what_the_first_wrote_by_default(fabtune, tmp_path):
    assert fabtune("emit", "urng")[0] == 0
    assert fabtune("emit", "urng", "--set", "n=3")[0] == 0
    assert json.loads((tmp_path / "build/urng/spec.json").read_text())["parameters"]["n"] == 3
    assert names(tmp_path / "build/urng") == ["spec.json", "urng.v"]


def test_a_file_of_the_users_in_the_default_folder_is_kept(fabtune, tmp_path):
    fabtune("emit", "urng")
    verilog = tmp_path / "build/urng/urng.v"
    verilog.write_text("edited")
    status, _, err = fabtune("emit", "urng")
    assert status == 2
    assert "urng.v exists" in err
    assert verilog.read_text() == "edited"
    assert fabtune("emit", "urng", "--force")[0] == 0
    assert fabtune("emit", "urng")[0] == 0


MISTAKES = {
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
    "emit urng --top module": "'module' is a keyword of Verilog, and not a module name: choose another",
    "emit urng --top entity": "'entity' is a keyword of VHDL, and not a module name: choose another",
    "emit urng --board zcu102 --mhz 5000": "5000",
    "emit pezo --board kv260 --mhz 200": "take 187.5 or 214.3",
    "emit urng --output /dev/null": "is a file, not a folder",
    "emit urng --output /proc/nowhere": "/proc/nowhere",
    "emit tile --set pezo.replay=false": "pezo.replay must be true",
    "emit urng --mhz 100": "--mhz has no meaning with no --board",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(refused, mistake):
    assert MISTAKES[mistake] in refused(mistake)


SMALL = options(ONE_STAGE)


def test_cores_of_different_settings_have_different_names(fabtune, tmp_path):
    spec = build(BLOCKS["zotrain"], words(ONE_STAGE))
    for naming, name in (((), f"zotrain_{spec.signature:08x}"), (("--name", "left"), "zotrain_left")):
        assert fabtune("emit", "zotrain", *SMALL, *naming, "-o", name)[0] == 0
        assert f"module {name}(" in (tmp_path / name / f"{name}.v").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--name", "a-b"), "'a-b' is no end of a name: letters, digits and _"),
        (("--name", "a", "--top", "b"), "--top is the whole name and --name the end of one: give one of them"),
    ],
)
def test_wrong_names_are_refused(fabtune, tmp_path, options, message):
    status, _, err = fabtune("emit", "urng", *options)
    assert status == 2
    assert message in err
    assert not (tmp_path / "build").exists()
