"""Options of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Rows = dict[str, Any]
"""``title``, ``rows`` (a list of flat dicts with the same keys), ``notes``, and ``curves`` of some tables."""


@dataclass(frozen=True)
class Options:
    """Options of any table; `options_of` lists the options of a table.

    Parameters
    ----------
    data_dir : Path, optional
        Folder with the files of the data sets.
    seeds : int, optional
        Number of trials; by default the table's number.
    preset : str, optional
        Preset of a core.
    processes : int, optional
        Number of trials that run at the same time; by default the number of processor cores.
    model : Path, optional
        Folder of a transformer; by default MiniLM's, if installed.
    tasks : tuple of str
        Text tasks; by default the table's.
    shots : int, optional
        Sentences per class.
    steps : int, optional
        Number of zeroth-order steps.
    rate : float, optional
        Learning rate of zeroth order on all weights.
    progress : callable
        Called with a text on the present measurement.
    announce : callable
        Called before work that takes many minutes, with a line about the expected time.
    """

    data_dir: Path | None = None
    seeds: int | None = None
    preset: str | None = None
    processes: int | None = None
    model: Path | None = None
    tasks: tuple[str, ...] = ()
    shots: int | None = None
    steps: int | None = None
    rate: float | None = None
    progress: Callable[[str], None] = lambda _: None
    announce: Callable[[str], None] = lambda _: None
