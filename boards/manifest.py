"""List of a package's files with digests, which tells fabtune's files in a folder from other files."""

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
"""Files of a package: the list of files in the format of ``sha256sum --check``, and the settings."""
# names of Vivado's outputs in a package
_BUILDS = ("out", "vivado/vivado")


def digest(content: str | bytes) -> str:
    """SHA-256 of a file's contents."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def manifest(files: Mapping[str, str | bytes]) -> str:
    """List of files with digests, sorted by name."""
    return "".join(f"{digest(content)}  {name}\n" for name, content in sorted(files.items()))


def read_manifest(text: str) -> dict[str, str]:
    """Digests by file name, without names outside the folder."""
    lines = re.findall(r"(?m)^([0-9a-f]{64})  (\S.*)$", text)
    return {name: value for value, name in lines if not {"..", "/"} & {*PurePosixPath(name).parts}}


@dataclass(frozen=True)
class EarlierPackage:
    """Package in an existing folder: digests of the files by name; the targets, None if the settings differ."""

    digests: dict[str, str]
    targets: tuple[str, ...] | None


def earlier_package(folder: Path, settings: str) -> EarlierPackage | None:
    """Package in a folder, or None.

    ``settings`` is the file `SETTINGS` of the new package; its targets are ignored. A `UserError` if the folder's
    package has other settings and no list of files.
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
        settings = parse_json(text)
    except ValueError:
        return {}
    return settings if isinstance(settings, dict) else {}


def replaced(folder: Path, deleted: int) -> str:
    """Message: the package of other settings that was replaced in a folder, and Vivado's outputs that remain."""
    said = f"{folder} had a package of other settings: {deleted} files that this one does not have are deleted"
    built = [f"{name}/" for name in _BUILDS if (folder / name).exists()]
    return f"{said}, {' and '.join(built)} may be of it" if built else said
