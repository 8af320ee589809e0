"""Default outputs of commands: folders with files that commands may replace, and numbered folders of runs.

A file that the user named is replaced only with ``--force``. A command must not fail when it runs a second time with
its default output: `OutputFolder` replaces fabtune's own files that the user did not change, and `new_run` numbers
runs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..boards.manifest import digest
from ..boards.vivado.package import refuse_existing, write
from ..golden.files import parse_json, refuse_unwritable, whole

RUNS = Path("build/runs")


@dataclass(frozen=True)
class OutputFolder:
    """A folder that a command fills with files.

    Parameters
    ----------
    path : Path
    force : bool
        Replace any file that has a name of the new files.
    default : bool
        The user did not name the folder. Files that fabtune wrote here by default are then replaced if unchanged; their
        SHA-256 digests are in ``.fabtune/NAME.json`` next to the folder.
    """

    path: Path
    force: bool
    default: bool

    @property
    def _record(self) -> Path:
        return self.path.parent / ".fabtune" / f"{self.path.name}.json"

    def _written(self) -> dict[str, str]:
        """Digests by file name of the files that fabtune wrote here by default."""
        if not (self.default and self._record.is_file()):
            return {}
        try:
            written = parse_json(self._record.read_bytes())
        except ValueError:  # damaged: replace no file
            return {}
        return written if isinstance(written, dict) else {}

    def refuse(self, names: Sequence[str]) -> None:
        """Refuse to write files: a `UserError` that names a file that may not be replaced or cannot be written."""
        written = self._written()
        theirs = [name for name in names if written.get(name, "") != _digest_of(self.path / name)]
        refuse_existing(theirs, self.path, self.force)
        for file in [self.path / name for name in names][:1] + [self._record] * self.default:
            refuse_unwritable(file)

    def write(self, files: Mapping[str, str | bytes], instead_of: Mapping[str, str] | None = None) -> list[str]:
        """Write all files, or none at all if one of them may not be replaced; returns the names.

        Parameters
        ----------
        files : mapping of str to str or bytes
            Contents by file name, with folders: ``tile/tile.v``.
        instead_of : mapping of str to str, optional
            Earlier files of fabtune to delete: digests by name. A file that the user changed, or any file in a folder
            that the user named, is deleted only if forced.
        """
        self.refuse(list(files))
        old = {name: was for name, was in (instead_of or {}).items() if (self.path / name).is_file()}
        theirs = (name for name, was in old.items() if not self.default or _digest_of(self.path / name) != was)
        refuse_existing(theirs, self.path, self.force)
        for name in old:  # first: after an interruption the next run finds the rest
            self._delete(name)
        by_folder: dict[Path, dict[str, str | bytes]] = {}
        for name, content in files.items():
            by_folder.setdefault((self.path / name).parent, {})[Path(name).name] = content
        for folder, contents in by_folder.items():
            write(contents, folder, force=True)
        if self.default:
            digests = self._written() | {name: digest(content) for name, content in files.items()}
            with whole(self._record) as made:
                made.write_text(json.dumps(digests, indent=1) + "\n")
        return list(files)

    def _delete(self, name: str) -> None:
        file = self.path / name
        file.unlink()
        for folder in file.parents:
            if folder == self.path or any(folder.iterdir()):
                return
            folder.rmdir()


def _digest_of(path: Path) -> str:
    return digest(path.read_bytes()) if path.is_file() else ""


def new_run(command: str) -> Path:
    """Make the next folder ``build/runs/COMMAND-NUMBER``; ``build/runs/latest`` links to the folder."""
    RUNS.mkdir(parents=True, exist_ok=True)
    matches = (re.fullmatch(rf"{command}-(\d+)", path.name) for path in RUNS.iterdir())
    number = max((int(match[1]) for match in matches if match), default=0) + 1
    while True:
        folder = RUNS / f"{command}-{number:04d}"
        try:
            folder.mkdir()
        except FileExistsError:  # made by another process in the meantime
            number += 1
            continue
        break
    link = RUNS / f".latest-{os.getpid()}"
    link.symlink_to(folder.name)
    os.replace(link, RUNS / "latest")
    return folder
