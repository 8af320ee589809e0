"""Default outputs: replaced while unchanged by the user, numbered for runs."""

from pathlib import Path

import pytest

from fabtune.boards.manifest import digest
from fabtune.golden.errors import UserError
from fabtune.scripts.outputs import OutputFolder, new_run


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def default(force=False):
    return OutputFolder(Path("build/demo"), force, default=True)


def test_a_default_output_is_replaced():
    assert default().write({"a.v": "1", "tile/b.v": "2"}) == ["a.v", "tile/b.v"]
    default().write({"a.v": "3", "tile/b.v": "2"})
    assert Path("build/demo/a.v").read_text() == "3"
    assert Path("build/demo/tile/b.v").read_text() == "2"


@pytest.mark.parametrize("edited", ["a.v", "tile/b.v"])
def test_a_file_that_the_user_changed_is_kept_and_nothing_is_written(edited):
    default().write({"a.v": "1", "tile/b.v": "2"})
    Path("build/demo", edited).write_text("mine")
    with pytest.raises(UserError, match=f"build/demo/{edited} exists"):
        default().write({"a.v": "3", "tile/b.v": "4"})
    texts = {name: Path("build/demo", name).read_text() for name in ("a.v", "tile/b.v")}
    assert texts == {"a.v": "1", "tile/b.v": "2"} | {edited: "mine"}
    default(force=True).write({"a.v": "3", "tile/b.v": "4"})
    default().write({"a.v": "5", "tile/b.v": "6"})


def test_a_folder_that_the_user_named_is_never_replaced():
    default().write({"a.v": "1"})
    with pytest.raises(UserError, match=r"build/demo/a.v exists"):
        OutputFolder(Path("build/demo"), force=False, default=False).write({"a.v": "1"})


def test_what_is_written_instead_of_other_files_deletes_them_with_their_folders():
    default().write({"a.v": "1", "tile/deep/b.v": "2", "tile/c.v": "3"})
    default().write({"a.v": "4"}, {"tile/deep/b.v": digest("2"), "missing.v": digest("5")})
    assert sorted(path.as_posix() for path in Path("build/demo").rglob("*")) == [
        "build/demo/a.v",
        "build/demo/tile",
        "build/demo/tile/c.v",
    ]
    with pytest.raises(UserError, match=r"build/demo/tile/c.v exists"):
        OutputFolder(Path("build/demo"), force=False, default=False).write({"d.v": ""}, {"tile/c.v": digest("3")})


def test_a_folder_that_fabtune_did_not_write_is_kept():
    Path("build/demo").mkdir(parents=True)
    Path("build/demo/a.v").write_text("")
    with pytest.raises(UserError, match=r"build/demo/a.v exists"):
        default().refuse(["a.v"])


def test_runs_are_numbered_and_the_latest_is_linked():
    Path("build/runs/tune-old").mkdir(parents=True)
    first, second = new_run("tune"), new_run("tune")
    assert (str(first), str(second)) == ("build/runs/tune-0001", "build/runs/tune-0002")
    assert Path("build/runs/latest").resolve() == second.resolve()
    Path("build/runs/tune-0041").mkdir()
    assert new_run("tune").name == "tune-0042"


@pytest.mark.parametrize("record", ["{", "[]", "[" * 100_000, "\udcff"])
def test_of_a_damaged_record_nothing_is_known_and_nothing_replaced(record):
    default().write({"a.v": "1"})
    Path("build/.fabtune/demo.json").write_text(record, errors="surrogateescape")
    with pytest.raises(UserError, match=r"build/demo/a.v exists"):
        default().write({"a.v": "2"})
    default(force=True).write({"a.v": "3"})
    default().write({"a.v": "4"})
