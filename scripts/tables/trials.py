"""Trials of fine-tuning: one task and seed at a time in each of several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np

from .options import Options

_Key = TypeVar("_Key")
_Found = TypeVar("_Found")


def run_trials(
    work: Callable[..., _Found], arguments: dict[_Key, tuple[Any, ...]], options: Options
) -> dict[_Key, _Found]:
    """Call `work` with each of the arguments, `options.processes` at a time; one at a time takes no further process.

    Parameters
    ----------
    work : callable
        At a module's top level; it runs with one thread.
    arguments : dict
        Arguments of each call by the key of its result.
    options : Options
        Its `progress` is called with a line about each trial that is done.
    """
    found: dict[_Key, _Found] = {}

    def add(key: _Key, result: _Found) -> None:
        found[key] = result
        options.progress(f"{key}: trial {len(found)} of {len(arguments)}")

    processes = options.processes or os.cpu_count() or 1
    if processes == 1:
        with _one_thread():
            for key, these in arguments.items():
                add(key, work(*these))
    else:
        with ProcessPoolExecutor(processes, get_context("spawn"), _limit_threads) as pool:
            waiting = {pool.submit(work, *these): key for key, these in arguments.items()}
            for done in as_completed(waiting):
                add(waiting[done], done.result())
    return {key: found[key] for key in arguments}


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for PyTorch, as in a trial's own process: sums depend on their number."""
    import torch

    threads = torch.get_num_threads()
    _limit_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _limit_threads() -> None:
    import torch

    torch.set_num_threads(1)


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation (of the sample) in percent, two decimals."""
    percent = 100 * np.array(list(values))
    return round(float(percent.mean()), 2), round(float(percent.std(ddof=1)) if len(percent) > 1 else 0.0, 2)
