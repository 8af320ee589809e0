"""List of the files of a package with their digests: it tells which files of a folder are fabtune's own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ..golden.errors import UserError

MANIFEST, SETTINGS = "files.sha256", "spec.json"
"""Files of a package that list its files, as ``sha256sum --check`` takes it, and say what it is of."""
# what Vivado makes in a package
_BUILDS = ("out", "vivado/vivado")


def digest(content: str | bytes) -> str:
    """SHA-256 of a file's contents."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def manifest(files: Mapping[str, str | bytes], listed: Mapping[str, str] | None = None) -> str:
    """List files by name and contents, and those of other names with the digests that they are listed with already."""
    digests = {**(listed or {})} | {name: digest(content) for name, content in files.items() if name != MANIFEST}
    return "".join(f"{value}  {name}\n" for name, value in sorted(digests.items()))


def read_manifest(text: str) -> dict[str, str]:
    """Read digests by file name; a name outside the folder is left out."""
    lines = re.findall(r"(?m)^([0-9a-f]{64})  (\S.*)$", text)
    return {name: value for value, name in lines if not {"..", "/"} & {*PurePosixPath(name).parts}}


def in_folder(folder: Path) -> dict[str, str]:
    """Digests by name of the files that the manifest of a folder lists and that are there."""
    return {name: was for name, was in (_listed(folder) or {}).items() if (folder / name).is_file()}


def earlier_package(folder: Path, settings: str) -> dict[str, str] | None:
    """Digests by file name of a package of other settings that is in a folder, or None if there is no such.

    Raises
    ------
    UserError
        If it does not say which files are its own.
    """
    file = folder / SETTINGS
    if file.is_file() and file.read_bytes() == settings.encode():
        return None
    if (listed := _listed(folder)) is None and file.is_file():
        raise UserError(
            f"{file} is of other settings, and no {MANIFEST} says which files are: choose another folder with "
            "--output, or delete this one"
        )
    return listed


def _listed(folder: Path) -> dict[str, str] | None:
    file = folder / MANIFEST
    return read_manifest(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else None


def replaced(folder: Path, deleted: int) -> str:
    """Say what became of the package of other settings that was in a folder, and what Vivado built of it, in a line."""
    said = f"{folder} had a package of other settings: {deleted} files that this one does not have are deleted"
    built = [f"{name}/" for name in _BUILDS if (folder / name).exists()]
    return f"{said}, {' and '.join(built)} may be of it" if built else said
