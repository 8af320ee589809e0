"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UserError


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
