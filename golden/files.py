"""Files: text of others without guesses about its encoding, and outputs that are there whole or not at all."""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from .errors import UserError

LEAST = 1 << 20
"""Bytes that have to be free where a file of unknown size is to be written."""
TEXT_LIMIT = 1 << 28
"""Largest text in bytes that is read: 15 times a capture of 131,072 samples of 512 bits."""
# UTF-32 with its low end first begins as UTF-16 does
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}

_LINE_END = re.compile(r"\r\n|\r|\n")
_QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')
_CELL = re.compile(rf"(?:{_QUOTED.pattern}|([^\",\r\n]*+))(,|\r\n|\r|\n|\Z)")


def read_text(path: Path, encoding: str = "utf-8", errors: Literal["strict", "replace"] = "strict") -> str:
    """Read a text file of the user.

    Parameters
    ----------
    path : Path
    encoding : str
        The file's, where it has no byte order mark.
    errors : str
        What is done with bytes that are none of the encoding, as for `bytes.decode`.

    Returns
    -------
    str
        Without byte order mark; ends of lines are as they stand in the file.

    Raises
    ------
    UserError
        If there is no such file, it is too large, of UTF-16 or UTF-32, has NUL bytes, or is not of the encoding; with
        the line.
    """
    if not path.is_file():
        raise UserError(f"{path} is no file" if path.exists() else f"{path} is missing")
    if (size := path.stat().st_size) > TEXT_LIMIT:
        raise UserError(f"{path} has {size} bytes, more than the {TEXT_LIMIT} that are read of a text")
    data = path.read_bytes()
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            raise UserError(f"{path} is {name} text: save it as UTF-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    if (at := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise UserError(f"{path}: line {line} has a NUL byte, which no text has: is it UTF-16? save it as UTF-8")
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}: line {line} is not {encoding} text: save it as UTF-8") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON.

    Raises
    ------
    ValueError
        If it is none, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> Any:
    """Read a JSON file of the user.

    Raises
    ------
    UserError
        As `read_text`, or if it is no JSON, or nested too deeply.
    """
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from None


def lines_of(text: str) -> list[str]:
    """Split a text at the ends of lines of Unix, Windows and old Macs, and at nothing else; none at its end."""
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Parse a CSV as RFC 4180 has it: a cell in quotes may hold commas, ends of lines, and quotes, which stand twice.

    Yields
    ------
    (int, list of str)
        Number of the record's first line, and its cells; an empty line has none.

    Raises
    ------
    UserError
        Where a quote is not closed, or stands elsewhere; with the line.
    """
    if '"' not in text:
        yield from ((number, line.split(",") if line else []) for number, line in enumerate(lines_of(text), 1))
        return
    row: list[str] = []
    at, line, first = 0, 1, 1
    while at < len(text) or row:
        cell = _CELL.match(text, at)
        if not cell:
            raise UserError(f"line {line}: {_misquoted(text, at)}")
        quoted, plain, end = cell.groups()
        row.append(plain if quoted is None else quoted.replace('""', '"'))
        at, line = cell.end(), line + len(_LINE_END.findall(cell[0]))
        if end != ",":
            yield first, [] if row == [""] and quoted is None else row
            row, first = [], line


def _misquoted(text: str, at: int) -> str:
    """Name the fault of a cell's quotes."""
    if text[at] == '"':
        if not _QUOTED.match(text, at):
            return "a quote is left open: close it, and write one inside twice"
        return "text behind a closed quote: write a quote inside twice"
    return "a quote in a cell that does not begin with one: put the cell in quotes, and write this one twice"


def refuse_unwritable(path: Path, size: int = LEAST) -> None:
    """Try to write a file beside a path, in the folders that it needs, and leave nothing of them.

    Parameters
    ----------
    path : Path
        A file that is to be written after long work, by `whole` or in place.
    size : int
        Bytes that it needs.

    Raises
    ------
    UserError
        If the path is no file, a folder cannot be made or written, or the disk has too little space.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file, and is not replaced: choose another")
    folder = next(one for one in path.absolute().parents if one.exists())
    if not folder.is_dir():
        raise UserError(f"{path}: {folder} is a file, not a folder")
    try:
        if path.exists():
            path.open("ab").close()
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fabtune-") as scratch:
            tried = Path(scratch, path.absolute().relative_to(folder))
            tried.parent.mkdir(parents=True, exist_ok=True)
            tried.write_bytes(b"0")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}: choose another place") from None
    if free < size:
        raise UserError(f"{path} needs {size / 1e6:.0f} MB, and {folder} has {free / 1e6:.1f} MB free: make room")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a path to write to; the file takes its place with the end of the context, replacing one that is there.

    A device is never replaced, which root could. Where the context ends with an exception, nothing is left: neither a
    part of the file nor folders made for it.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file, and is not replaced: choose another")
    missing = next((part for part in reversed([path, *path.parents][1:]) if not part.exists()), None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fabtune-") as scratch:
            made = Path(scratch, f"whole{path.suffix}")
            yield made
            os.replace(made, path)
    except BaseException:
        if missing:
            shutil.rmtree(missing, ignore_errors=True)
        raise
