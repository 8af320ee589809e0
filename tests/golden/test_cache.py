"""Cache entries are made once, completely, and evicted by age beyond the limit."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fabtune.golden import cache
from fabtune.golden.cache import cached, digest_of, evict, source_digest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path))
    return tmp_path


def test_an_entry_is_made_once(folder):
    made = []

    def make(path):
        made.append(path)
        path.write_text("whole")

    assert [cached("kind", "name", make) for _ in range(2)] == [folder / "kind" / "name"] * 2
    assert len(made) == 1
    assert [path.name for path in (folder / "kind").iterdir()] == ["name"]
    assert (folder / "kind" / "name").read_text() == "whole"


def test_a_failure_leaves_nothing(folder):
    def fail(path):
        path.mkdir()
        (path / "half").touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cached("kind", "name", fail)
    assert list((folder / "kind").iterdir()) == []


def test_two_that_make_the_same_folder_at_the_same_time_have_one(folder):
    def make(path):
        path.mkdir()
        time.sleep(0.2)
        (path / "part").write_text("whole")

    with ThreadPoolExecutor(2) as both:
        found = list(both.map(lambda _: cached("kind", "name", make), range(2)))
    assert found == [folder / "kind" / "name"] * 2
    assert [path.name for path in (folder / "kind").rglob("*")] == ["name", "part"]


@pytest.fixture
def entries(folder):
    """Three entries of a thousand bytes, used three, two and one hours ago; the second is a folder."""
    names = ["first", "second", "third"]
    (folder / "second").mkdir()
    for hours, path in zip((3, 2, 1), ("first", "second/part", "third"), strict=True):
        (folder / path).write_bytes(bytes(1000))
        used = time.time() - 3600 * hours - 1
        os.utime(folder / path.partition("/")[0], (used, used))
    return names


@pytest.mark.parametrize(("limit", "left"), [(3000, 3), (2999, 2), (1500, 1), (0, 0)])
def test_the_oldest_go_first(folder, entries, limit, left):
    evict(folder, limit)
    assert sorted(path.name for path in folder.iterdir()) == entries[3 - left :]


def test_what_was_just_used_stays(folder, entries):
    os.utime(folder / "first")
    evict(folder, 0)
    assert [path.name for path in folder.iterdir()] == ["first"]


def test_use_makes_an_entry_young(folder, monkeypatch):
    monkeypatch.setattr(cache, "GRACE", 0)
    path = cached("kind", "name", lambda path: path.touch())
    os.utime(path, (0, 0))
    cached("kind", "name", lambda path: path.touch())
    assert path.stat().st_mtime > time.time() - 60


def test_a_digest_has_borders_between_its_parts():
    assert digest_of("ab", "c") != digest_of("a", "bc")
    assert digest_of("ab", b"c") == digest_of("ab", "c")


def test_a_changed_source_is_another_digest(tmp_path):
    for name, text in (("one", "x = 1"), ("two", "x = 2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text(text)
    assert source_digest(tmp_path / "one") != source_digest(tmp_path / "two")
