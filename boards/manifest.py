"""List of the files of a package with their digests: it tells which files of a folder are fabtune's own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..golden.errors import UserError
from ..golden.files import parse_json
from ..golden.spec_file import SPEC_FILE

MANIFEST, SETTINGS = "files.sha256", SPEC_FILE
"""Files of a package that list its files, as ``sha256sum --check`` takes it, and say what it is of."""
# what Vivado makes in a package
_BUILDS = ("out", "vivado/vivado")


def digest(content: str | bytes) -> str:
    """SHA-256 of a file's contents."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def manifest(files: Mapping[str, str | bytes]) -> str:
    """List files by name and contents."""
    return "".join(f"{digest(content)}  {name}\n" for name, content in sorted(files.items()))


def read_manifest(text: str) -> dict[str, str]:
    """Read digests by file name; a name outside the folder is left out."""
    lines = re.findall(r"(?m)^([0-9a-f]{64})  (\S.*)$", text)
    return {name: value for value, name in lines if not {"..", "/"} & {*PurePosixPath(name).parts}}


@dataclass(frozen=True)
class EarlierPackage:
    """Package that a folder has already.

    Parameters
    ----------
    digests : dict of str to str
        Digests of its files, by name.
    targets : tuple of str or None
        What it is for; None where it is of other settings.
    """

    digests: dict[str, str]
    targets: tuple[str, ...] | None


def earlier_package(folder: Path, settings: str) -> EarlierPackage | None:
    """Find the package that is in a folder.

    Parameters
    ----------
    folder : Path
    settings : str
        The file `SETTINGS` of the package to come; what that is for does not matter.

    Raises
    ------
    UserError
        If it is of other settings, and does not say which files are its own.
    """
    file, listed = folder / SETTINGS, folder / MANIFEST
    before = _settings(file.read_bytes()) if file.is_file() else {}
    targets = before.pop("targets", [])
    same = before == {name: value for name, value in _settings(settings).items() if name != "targets"}
    if listed.is_file():
        digests = read_manifest(listed.read_text(encoding="utf-8", errors="replace"))
        return EarlierPackage(digests, tuple(targets) if same and isinstance(targets, list) else None)
    if file.is_file() and not same:
        raise UserError(
            f"{file} is of other settings, and no {MANIFEST} says which files are: choose another folder with "
            "--output, or delete this one"
        )
    return None


def _settings(text: str | bytes) -> dict[str, Any]:
    try:
        found = parse_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def replaced(folder: Path, deleted: int) -> str:
    """Say what became of the package of other settings that was in a folder, and what Vivado built of it, in a line."""
    said = f"{folder} had a package of other settings: {deleted} files that this one does not have are deleted"
    built = [f"{name}/" for name in _BUILDS if (folder / name).exists()]
    return f"{said}, {' and '.join(built)} may be of it" if built else said
