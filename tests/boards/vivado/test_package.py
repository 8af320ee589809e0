"""Writing a folder: complete or not at all."""

import pytest

from fabtune.boards.vivado import package as module
from fabtune.boards.vivado.package import write
from fabtune.golden.errors import UserError

FILES = {"a.txt": "a", "b.txt": "b"}


def test_files_are_written_and_named(tmp_path):
    assert write(FILES, tmp_path / "new" / "deep") == ["a.txt", "b.txt"]
    assert (tmp_path / "new" / "deep" / "b.txt").read_text() == "b"


def test_a_failure_half_way_leaves_no_folder(tmp_path, monkeypatch):
    def broken(source, target):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(module.os, "replace", broken)
    with pytest.raises(OSError, match="No space left"):
        write(FILES, tmp_path / "new" / "deep")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_in_a_folder_of_the_users_leaves_it_alone(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr(module.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O error")))
    with pytest.raises(OSError, match="I/O error"):
        write(FILES, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "b.txt").write_text("mine")
    with pytest.raises(UserError, match=r"b\.txt exists"):
        write(FILES, tmp_path)
    assert not (tmp_path / "a.txt").exists()
