"""Trials of fine-tuning: one task and seed at a time in each of several processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Any, NoReturn, TypeVar

import numpy as np

from ...hw import processes
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

    processes = min(options.processes or os.cpu_count() or 1, len(arguments))
    if processes == 1:
        with _one_thread():
            for key, these in arguments.items():
                add(key, work(*these))
    else:
        with _pool(processes) as pool:
            with _without_sigint():
                waiting = {pool.submit(_trial, work, *these): key for key, these in arguments.items()}
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


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes for trials; they end at once where a trial fails or the command is stopped, with what they have begun.

    By itself the executor would wait for the trials that run.
    """
    others = set(active_children())
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - others:
            child.terminate()
        raise
    pool.shutdown()


@contextmanager
def _without_sigint() -> Iterator[None]:
    """Start processes that never see SIGINT: a terminal sends it to all of them, and each would print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Set up a process for trials: one thread, and an end with the command, even one that was killed."""
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_threads()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "runs in a process of the pool"
    parent.join()
    _end()


def _trial(work: Callable[..., _Found], *arguments: Any) -> _Found:
    try:
        processes.refuse_stopped()  # the signal may have come while the executor took the last result
        return work(*arguments)
    except SystemExit:  # the executor would begin the next trial
        _end()


def _stop(*_: object) -> None:
    """Stop a trial by an exception, so that it deletes what it is making, and end this process soon in any case."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the executor sends another one
    end = threading.Timer(processes.GRACE, _end)
    end.daemon = True
    end.start()
    processes.stop(SystemExit(1))


def _end() -> NoReturn:
    """End this process with the programs that it runs, even in the middle of a trial."""
    processes.end_all()
    os._exit(1)


def _limit_threads() -> None:
    import torch

    torch.set_num_threads(1)


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation (of the sample) in percent, two decimals."""
    percent = 100 * np.array(list(values))
    return round(float(percent.mean()), 2), round(float(percent.std(ddof=1)) if len(percent) > 1 else 0.0, 2)
