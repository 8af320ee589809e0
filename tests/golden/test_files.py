"""Files are there whole or not at all."""

from pathlib import Path

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.files import whole


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
