"""Trials of fine-tuning: one task and seed in one process, as many processes as the machine has cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np

_Key = TypeVar("_Key")
_Found = TypeVar("_Found")


def run_trials(
    work: Callable[..., _Found], arguments: dict[_Key, tuple[Any, ...]], progress: Callable[[str], None]
) -> dict[_Key, _Found]:
    """Call `work` with each of the arguments, side by side.

    Parameters
    ----------
    work : callable
        At a module's top level; each process has one thread of its own.
    arguments : dict
        Arguments of each call by the key of its result.
    progress : callable
        Called with a line about each trial that is done.
    """
    found: dict[_Key, _Found] = {}
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _one_thread) as pool:
        waiting = {pool.submit(work, *these): key for key, these in arguments.items()}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            progress(f"{waiting[done]}: trial {len(found)} of {len(arguments)}")
    return {key: found[key] for key in arguments}


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation (of the sample) in percent, two decimals."""
    percent = 100 * np.array(list(values))
    return round(float(percent.mean()), 2), round(float(percent.std(ddof=1)) if len(percent) > 1 else 0.0, 2)
