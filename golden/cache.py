"""Cache of reproducible files: each entry's name is a digest of all its inputs."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIMIT = 2 << 30
"""Largest size of all entries of a kind, in bytes."""
GRACE = 3600
"""Seconds after its last use without eviction: another process may be about to run the entry."""


def cache_folder() -> Path:
    """Folder of compiled simulators, pre-trained networks and the like: ``$FABTUNE_CACHE``, else the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(os.environ.get("FABTUNE_CACHE", Path(home) / "fabtune"))


def digest_of(*parts: object) -> str:
    """Digest, 20 hexadecimal digits, of texts, bytes and values with a complete `repr`."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:20]


def package_version(package: str) -> str:
    """Version of an installed Python package, "" if missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def source_digest(*paths: Path) -> str:
    """Digest of Python sources, files or all of a folder's, for entries that depend on fabtune's code."""
    files = sorted(file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py")))
    return digest_of(*(part for file in files for part in (file.name, file.read_bytes())))


def cached(kind: str, name: str, make: Callable[[Path], object]) -> Path:
    """Cache entry, created if missing.

    Several processes may ask for the same entry: an entry is made in a temporary folder and renamed when complete.

    Parameters
    ----------
    kind : str
        Folder in `cache_folder`. Beyond `LIMIT` bytes, its least recently used entries are deleted.
    name : str
        Name of the entry, with a digest of all inputs.
    make : callable
        Makes the entry, a file or a folder, at a path. Exceptions pass through, without an entry.
    """
    target = cache_folder() / kind / name
    try:
        os.utime(target)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as scratch:
            unfinished = Path(scratch, name)
            make(unfinished)
            try:
                unfinished.rename(target)
            except OSError:  # another process was faster
                if not target.exists():
                    raise
        evict(target.parent)
    return target


def evict(folder: Path, limit: int = LIMIT, grace: float = GRACE) -> None:
    """Delete the least recently used entries of a folder until the rest take at most `limit` bytes."""
    entries = []
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):  # another process has just deleted it
            entries.append((entry.stat().st_mtime, entry, _size(entry)))
    total = sum(size for _, _, size in entries)
    for used, entry, size in sorted(entries):
        if total <= limit or used > time.time() - grace:
            return
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
        total -= size


def _size(entry: Path) -> int:
    return sum(path.lstat().st_size for path in (entry.rglob("*") if entry.is_dir() else [entry]))
