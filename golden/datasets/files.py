"""Search for a task's files in the user's folder; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import UserError


def find(
    task: str, data_dir: Path | None, folder: str, names: Sequence[str], endings: Sequence[str] = ("",)
) -> list[Path]:
    """Paths of all files of a task in one folder.

    Raises `UserError` if a file is missing; the text lists folders and names.

    Parameters
    ----------
    task : str
        Name of the task for messages.
    data_dir : Path or None
        Value of ``--data-dir``.
    folder : str
        Subfolder of `data_dir`, searched before `data_dir` itself.
    names : sequence of str
        Required file names.
    endings : sequence of str
        Possible suffixes of a name, the preferred one first.
    """
    required = ", ".join(f"{name}[{'|'.join(filter(None, endings))}]" if any(endings) else name for name in names)
    if data_dir is None:
        raise UserError(f"{task} needs files: {required}; give their folder, or the parent of {folder}/, as --data-dir")
    if not data_dir.is_dir():
        raise UserError(f"--data-dir {data_dir}: no such folder")
    folders = (data_dir / folder, data_dir)
    paths = [[_first(place, name, endings) for name in names] for place in folders]
    complete = [files for files in paths if None not in files]
    if complete:
        return [path for path in complete[0] if path]
    best = max(paths, key=lambda files: sum(path is not None for path in files))
    missing = ", ".join(name for name, path in zip(names, best, strict=True) if not path)
    raise UserError(
        f"{task} needs {required} in {folders[0]} or {folders[1]}, but not found: {missing} (see --data-dir)"
    )


def _first(place: Path, name: str, endings: Sequence[str]) -> Path | None:
    candidates = (place / f"{name}{ending}" for ending in endings)
    return next((path for path in candidates if path.is_file()), None)
