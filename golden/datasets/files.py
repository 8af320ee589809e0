"""Where the files of a task lie: below the folder that the user gives, and nowhere else. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import UserError


def find(
    task: str, data_dir: Path | None, folder: str, names: Sequence[str], endings: Sequence[str] = ("",)
) -> list[Path]:
    """All files of a task, from one place.

    Parameters
    ----------
    task : str
        For the message.
    data_dir : Path or None
        What ``--data-dir`` says.
    folder : str
        Looked into first; then `data_dir` itself.
    names : sequence of str
        All are needed.
    endings : sequence of str
        That a name may have, the preferred one first.

    Raises
    ------
    UserError
        That says what was looked for, where, and what is missing.
    """
    some = ", ".join(f"{name}[{'|'.join(filter(None, endings))}]" if any(endings) else name for name in names)
    if data_dir is None:
        raise UserError(
            f"{task} needs files: {some}; give their folder, or the one that holds {folder}/, as --data-dir"
        )
    if not data_dir.is_dir():
        raise UserError(f"--data-dir {data_dir}: no such folder")
    places = (data_dir / folder, data_dir)
    found = [[_first(place, name, endings) for name in names] for place in places]
    complete = [files for files in found if None not in files]
    if complete:
        return [path for path in complete[0] if path]
    best = max(found, key=lambda files: sum(path is not None for path in files))
    missing = ", ".join(name for name, path in zip(names, best, strict=True) if not path)
    raise UserError(f"{task} needs {some} in {places[0]} or {places[1]}, but not found: {missing} (see --data-dir)")


def _first(place: Path, name: str, endings: Sequence[str]) -> Path | None:
    candidates = (place / f"{name}{ending}" for ending in endings)
    return next((path for path in candidates if path.is_file()), None)
