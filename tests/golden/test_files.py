"""Files are there whole or not at all."""

from pathlib import Path

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.files import refuse_unwritable, whole


def test_a_file_takes_its_place_at_the_end(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    for text in ("first", "second"):
        with whole(path) as made:
            made.write_text(text)
            assert made.suffix == ".txt"
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_an_exception_leaves_what_was_there(tmp_path):
    (tmp_path / "old").write_text("old")

    def stopped(path):
        with whole(path) as made:
            made.write_text("half")
            raise KeyboardInterrupt

    for path in (tmp_path / "old", tmp_path / "new" / "folder" / "file"):
        with pytest.raises(KeyboardInterrupt):
            stopped(path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old": "old"}


def test_a_device_is_not_replaced():
    with pytest.raises(UserError, match="/dev/null is no file"), whole(Path("/dev/null")):
        pass


def test_a_file_that_can_be_written_is_tried_and_nothing_is_left(tmp_path):
    (tmp_path / "old").write_text("old")
    for name in ("old", "new", "deep/er/new"):
        refuse_unwritable(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["old"]
    assert (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("/proc/none/file", "/proc/none/file cannot be written: No such file or directory: choose another place"),
        ("/dev/null", "/dev/null is no file, and is not replaced"),
        (".", "is no file, and is not replaced"),
        ("file/below", "file is a file, not a folder"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path, name, told):
    (tmp_path / "file").touch()
    with pytest.raises((UserError, OSError), match=told):
        refuse_unwritable(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]


def test_a_disk_with_too_little_space_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"file needs 1000000000000000 MB, and .* MB free: make room"):
        refuse_unwritable(tmp_path / "file", size=10**21)
