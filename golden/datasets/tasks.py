"""Tasks by name, as on the command line; a task's reader is imported when it reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..errors import UserError
from .dataset import Task

_Loader = Callable[[Path | None, int], Task]


def _digits(_: Path | None, seed: int) -> Task:
    from .images import digits

    return digits(seed)


def _mnist(name: str, data_dir: Path | None, seed: int) -> Task:
    from .images import mnist

    return mnist(name, data_dir, seed)


def _fan(damage: int, data_dir: Path | None, seed: int) -> Task:
    from .fan import fan

    return fan(damage, data_dir, seed)


def _har(data_dir: Path | None, _: int) -> Task:
    from .har import har

    return har(data_dir)


_TASKS: dict[str, tuple[str, _Loader]] = {
    "digits": ("digits", _digits),
    "mnist": ("lenet5-mnist", partial(_mnist, "mnist")),
    "fashion-mnist": ("lenet5-mnist", partial(_mnist, "fashion-mnist")),
    "fan-damage1": ("fan", partial(_fan, 1)),
    "fan-damage2": ("fan", partial(_fan, 2)),
    "har": ("har", _har),
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
    from .drift import Drift
    from .npz import npz

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
