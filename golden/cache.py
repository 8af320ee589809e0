"""Cache what can be rebuilt: each entry's name is a digest of everything that went into it."""

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
"""Bytes that the entries of one kind may take together."""
GRACE = 3600
"""Seconds for which an entry is safe from eviction after its last use: another process may be about to run it."""


def cache_folder() -> Path:
    """Folder of compiled simulators, pre-trained networks and the like: ``$FABTUNE_CACHE``, else the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(os.environ.get("FABTUNE_CACHE", Path(home) / "fabtune"))


def digest_of(*parts: object) -> str:
    """Twenty hexadecimal digits of a digest of texts, bytes and whatever has a `repr` that shows all of it."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:20]


def package_version(package: str) -> str:
    """Version of an installed Python package, "" where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def source_digest(*paths: Path) -> str:
    """Digest of Python sources, for entries that depend on fabtune's own code: files, or all of a folder's."""
    files = sorted(file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py")))
    return digest_of(*(part for file in files for part in (file.name, file.read_bytes())))


def cached(kind: str, name: str, make: Callable[[Path], object]) -> Path:
    """Find a cache entry, or make it.

    Several processes may ask for the same entry at the same time: an entry is made beside its place and renamed when it
    is whole, so that the others see all of it or nothing.

    Parameters
    ----------
    kind : str
        Folder in `cache_folder`. The entries of a kind that were used longest ago are deleted where all of them take
        more than `LIMIT` bytes.
    name : str
        Name of the entry, with a digest of everything that goes into it.
    make : callable
        Makes the entry, a file or a folder, at the path that it is given. What it raises is raised here, and there is
        no entry.

    Returns
    -------
    Path
        The entry.
    """
    target = cache_folder() / kind / name
    try:
        os.utime(target)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as beside:
            made = Path(beside, name)
            make(made)
            try:
                made.rename(target)
            except OSError:  # another process made the same meanwhile
                if not target.exists():
                    raise
        evict(target.parent)
    return target


def evict(folder: Path, limit: int = LIMIT, grace: float = GRACE) -> None:
    """Delete the entries of a folder that were used longest ago until all of them take at most `limit` bytes."""
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
