"""Files: text with strict encoding, and outputs written completely or not at all."""

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
"""Free bytes required for a file of unknown size."""
TEXT_LIMIT = 1 << 28
"""Largest text in bytes: 15 times a capture of 131,072 samples of 512 bits."""
# UTF-32-LE first: the UTF-32 mark begins with the UTF-16 mark
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
    """Text of a user's file, without byte order mark, with its own line ends.

    `encoding` is for files without byte order mark; for `errors` see `bytes.decode`. Raises `UserError` if the file is
    missing or too large, is UTF-16 or UTF-32, has NUL bytes or invalid bytes; with the line.
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
    if (position := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, position) + 1
        raise UserError(f"{path}: line {line} has a NUL byte, which no text has: is it UTF-16? save it as UTF-8")
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}: line {line} is not {encoding} text: save it as UTF-8") from None


def parse_json(text: str | bytes) -> Any:
    """Value of a JSON text.

    Raises `ValueError` if the text is no JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> Any:
    """Value of a user's JSON file.

    Raises `UserError` like `read_text`, or if the text is no JSON, or nested too deeply.
    """
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from None


def lines_of(text: str) -> list[str]:
    """Lines of a text with line ends of Unix, Windows and old Macs, without an empty last line."""
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Records of a CSV (RFC 4180): a quoted cell may hold commas, line ends and doubled quotes.

    Raises `UserError` if a quote is not closed or misplaced; with the line.

    Yields
    ------
    (int, list of str)
        First line of the record, and its cells; an empty line has none.
    """
    if '"' not in text:
        yield from ((number, line.split(",") if line else []) for number, line in enumerate(lines_of(text), 1))
        return
    row: list[str] = []
    position, line, first = 0, 1, 1
    while position < len(text) or row:
        cell = _CELL.match(text, position)
        if not cell:
            raise UserError(f"line {line}: {_misquoted(text, position)}")
        quoted, plain, end = cell.groups()
        row.append(plain if quoted is None else quoted.replace('""', '"'))
        position, line = cell.end(), line + len(_LINE_END.findall(cell[0]))
        if end != ",":
            yield first, [] if row == [""] and quoted is None else row
            row, first = [], line


def _misquoted(text: str, position: int) -> str:
    if text[position] == '"':
        if not _QUOTED.match(text, position):
            return "a quote is left open: close it, and write one inside twice"
        return "text behind a closed quote: write a quote inside twice"
    return "a quote in a cell that does not begin with one: put the cell in quotes, and write this one twice"


def refuse_unwritable(path: Path, size: int = LEAST) -> None:
    """Check that `size` bytes can be written to a path: write and delete a test file, with all its folders.

    For outputs of long work, written later by `whole` or in place. Raises `UserError` if the path is no file, a folder
    cannot be made or written, or the disk has too little space.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file, and is not replaced: choose another")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
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
    """Context with a temporary path; at the end the file is renamed to `path` and replaces an existing file.

    A device is never replaced, even by root. After an exception neither an incomplete file nor a new folder remains.
    Raises `UserError` if the path exists and is no file.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file, and is not replaced: choose another")
    missing = next((part for part in reversed([path, *path.parents][1:]) if not part.exists()), None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fabtune-") as scratch:
            unfinished = Path(scratch, f"whole{path.suffix}")
            yield unfinished
            os.replace(unfinished, path)
    except BaseException:
        if missing:
            shutil.rmtree(missing, ignore_errors=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Context with a temporary folder; at the end it is renamed to `path` and replaces an existing folder.

    After an exception neither an incomplete folder nor a new parent remains, and an existing folder is unchanged.
    Raises `UserError` if the path exists and is no folder.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is no folder, and is not replaced: choose another")
    missing = next((part for part in reversed(path.parents) if not part.exists()), None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fabtune-") as scratch:
            unfinished = Path(scratch, "whole")
            unfinished.mkdir()
            yield unfinished
            if path.exists():
                os.replace(path, Path(scratch, "replaced"))
            os.replace(unfinished, path)
    except BaseException:
        if missing:
            shutil.rmtree(missing, ignore_errors=True)
        raise
