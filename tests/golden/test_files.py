"""Text is read by its format or refused; files exist completely or not at all."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden import files
from fabtune.golden.errors import UserError
from fabtune.golden.files import csv_rows, lines_of, read_json, read_text, refuse_unwritable, whole


def attempt(read):
    """Content read, or the refusal."""
    try:
        return read(), ""
    except UserError as error:
        return None, str(error)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfcaf\xc3\xa9\r\n", "caf\xe9\r\n"),
        (b"", ""),
        (b"\xff\xfea\0", "is UTF-16 text: save it as UTF-8"),
        (b"\xfe\xff\0a", "is UTF-16 text"),
        (b"\xff\xfe\0\0a\0\0\0", "is UTF-32 text"),
        (b"\0\0\xfe\xff\0\0\0a", "is UTF-32 text"),
        (b"ab\nc\0", "line 2 has a NUL byte, which no text has: is it UTF-16?"),
        (b"ab\nc\xe9\n", "line 2 is not utf-8 text"),
    ],
)
def test_text_is_read_as_it_is_or_refused(tmp_path, data, text):
    (tmp_path / "a.txt").write_bytes(data)
    found, refusal = attempt(lambda: read_text(tmp_path / "a.txt"))
    assert text in refusal if refusal else found == text


def test_too_large_a_text_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "TEXT_LIMIT", 3)
    (tmp_path / "a.txt").write_text("four")
    with pytest.raises(UserError, match="has 4 bytes, more than the 3"):
        read_text(tmp_path / "a.txt")
    with pytest.raises(UserError, match="is no file"):
        read_text(tmp_path)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "one.json is not JSON: Expecting value"),
        (b"[1", "one.json is not JSON: Expecting"),
        (b"[" * 100_000, "one.json is not JSON: it is nested too deeply"),
        (b"1" * 5_000, "one.json is not JSON: Exceeds the limit"),
        (b'"\xff"', "one.json: line 1 is not utf-8 text"),
    ],
)
def test_what_is_no_json_is_refused(tmp_path, data, told):
    path = tmp_path / "one.json"
    path.write_bytes(data)
    with pytest.raises(UserError, match=told):
        read_json(path)
    path.write_bytes(b'\xef\xbb\xbf{"a": [1]}')
    assert read_json(path) == {"a": [1]}


def test_lines_end_where_every_system_ends_them():
    assert lines_of("a\x85b\r\nc\u2028\rd\n\n") == ["a\x85b", "c\u2028", "d", ""]
    assert lines_of("") == []


CELLS = st.text(st.sampled_from('ab,"\r\n \x85\u2028'), max_size=5)


@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=3), max_size=4))
def test_a_csv_of_pythons_writer_comes_back(rows):
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    found = list(csv_rows(file.getvalue()))
    assert [row for _, row in found] == rows
    # lines before a record contain the earlier records
    lines = file.getvalue().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for at, (line, _) in enumerate(found):
        assert [row for _, row in csv_rows("\n".join(lines[: line - 1]))] == [
            [cell.replace("\r\n", "\n").replace("\r", "\n") for cell in row] for row in rows[:at]
        ]


@given(text=st.text(st.sampled_from('a,"\r\n'), max_size=12))
def test_a_csv_is_what_python_reads_strictly_or_refused(text):
    try:
        expected = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        expected = None
    found, refusal = attempt(lambda: [row for _, row in csv_rows(text)])
    # Python accepts a quote inside an unquoted cell
    assert expected is None or "a quote in a cell" in refusal if refusal else found == expected


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
