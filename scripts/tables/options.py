"""What a table may be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Rows = dict[str, Any]
"""``title``, ``rows`` (a list of flat dicts with the same keys) and ``notes``."""


@dataclass(frozen=True)
class Options:
    """Of any table; those that it does not use are ignored.

    Parameters
    ----------
    data_dir : Path, optional
        Folder with the data's files.
    seeds : int, optional
        Trials; by default the table's own number.
    progress : callable
        Told what is being measured.
    """

    data_dir: Path | None = None
    seeds: int | None = None
    progress: Callable[[str], None] = lambda _: None
