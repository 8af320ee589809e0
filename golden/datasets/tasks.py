"""Tasks by name, as on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import UserError
from .dataset import Task
from .drift import Drift
from .fan import fan
from .har import har
from .images import digits, mnist
from .npz import npz

_Loader = Callable[[Path | None, int], Task]

_TASKS: dict[str, tuple[str, _Loader]] = {
    "digits": ("digits", lambda data_dir, seed: digits(seed)),
    "mnist": ("lenet5-mnist", lambda data_dir, seed: mnist("mnist", data_dir, seed)),
    "fashion-mnist": ("lenet5-mnist", lambda data_dir, seed: mnist("fashion-mnist", data_dir, seed)),
    "fan-damage1": ("fan", lambda data_dir, seed: fan(1, data_dir, seed)),
    "fan-damage2": ("fan", lambda data_dir, seed: fan(2, data_dir, seed)),
    "har": ("har", lambda data_dir, seed: har(data_dir)),
}
"""Preset network and loader of each task."""

TASKS = (*_TASKS, "npz:FILE")


def task_of(name: str, data_dir: Path | None = None, drift: str = "none", seed: int = 0, scale: float = 1.0) -> Task:
    """Task of a name of `TASKS`.

    `data_dir` has the task's files; "digits" and "npz:FILE" need none. `drift` changes tuning and test samples, see
    `Drift.parse`; `seed`, at least 0, is for random splits and noise; `scale` is the factor of float samples. Raises
    `UserError` if the task or the drift is unknown, or files are missing or wrong.
    """
    if seed < 0:
        raise UserError(f"a seed is at least 0, not {seed}")
    change = Drift.parse(drift)
    if name.startswith("npz:"):
        return change.apply(npz(Path(name.removeprefix("npz:")), scale=scale), seed)
    return change.apply(_entry(name)[1](data_dir, seed).scaled(scale), seed)


def network_for(name: str) -> str:
    """Name of a task's preset network.

    Raises `UserError` for samples from an NPZ file, which have no preset.
    """
    if name.startswith("npz:"):
        raise UserError(f"{name} has no network of its own: name one with --network or --model file.py:build")
    return _entry(name)[0]


def _entry(name: str) -> tuple[str, _Loader]:
    if name not in _TASKS:
        raise UserError(f"there is no task {name!r}; there are: {', '.join(TASKS)}")
    return _TASKS[name]
