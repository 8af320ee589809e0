"""Files that are there whole or not at all, and that are known to be writable before work begins."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UserError

LEAST = 1 << 20
"""Bytes that have to be free where a file of unknown size is to be written."""


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
