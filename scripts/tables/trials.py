"""Trials of fine-tuning in several processes; each process runs one task with one seed at a time."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

import numpy as np

from ...golden.cache import cache_folder, cached, digest_of, package_version, source_digest
from ...hw import processes
from ..heartbeat import keeping
from .options import Options

_Key = TypeVar("_Key")
_Found = TypeVar("_Found")
_KIND = "trials"


def kept_trials(
    work: Callable[..., _Found], arguments: Mapping[_Key, tuple[Any, ...]], options: Options, unit: str = "trials"
) -> dict[_Key, _Found]:
    """`run_trials` with each result cached, so that a stopped table continues.

    The name of a cache entry has a digest of fabtune's models, RTL, benches and estimates, of the file that defines
    `work`, and of the arguments; a folder counts with sizes and dates of its files. `unit` is the plural name of a
    trial.
    """
    packages = (Path(__file__).parents[2] / name for name in ("golden", "hw", "sim", "boards"))
    sources = source_digest(*packages, Path(inspect.getfile(work)))
    code = sources, work.__qualname__, package_version("torch"), package_version("numpy")
    names = {key: digest_of(*code, *map(_identity, call_arguments)) for key, call_arguments in arguments.items()}
    results: dict[_Key, _Found] = {}
    for key, name in names.items():
        entry = cache_folder() / _KIND / name
        try:
            results[key] = pickle.loads(entry.read_bytes())
        except Exception:  # a missing entry, or a damaged entry, for which pickle raises anything
            entry.unlink(missing_ok=True)
    done = len(results)

    def keep(key: _Key, result: _Found) -> None:
        nonlocal done
        cached(_KIND, names[key], lambda made: made.write_bytes(pickle.dumps(result)))
        done += 1

    missing = {key: call_arguments for key, call_arguments in arguments.items() if key not in results}
    with keeping(lambda: f"{done} of {len(arguments)} {unit}, which are kept: the same command goes on"):
        results |= run_trials(work, missing, options, keep, unit)
    return {key: results[key] for key in arguments}


def _identity(argument: object) -> str:
    """Text of an argument for the digest; for a folder, sizes and dates of the files."""
    if not isinstance(argument, Path) or not argument.is_dir():
        return repr(argument)
    files = ((path, path.stat()) for path in sorted(argument.rglob("*")))
    return repr([(str(path), about.st_size, about.st_mtime_ns) for path, about in files])


def run_trials(
    work: Callable[..., _Found],
    arguments: Mapping[_Key, tuple[Any, ...]],
    options: Options,
    keep: Callable[[_Key, _Found], None] = lambda *_: None,
    unit: str = "trials",
) -> dict[_Key, _Found]:
    """Call `work` with each of the arguments in `options.processes` processes; with 1, in this process.

    Parameters
    ----------
    work : callable
        A module-level function; it runs with one thread.
    arguments : dict
        Arguments of each call by the key of the result.
    options : Options
        `progress` is called with the number of finished trials.
    keep : callable, optional
        Called with key and result of each finished trial.
    unit : str
        Plural name of a trial.
    """
    results: dict[_Key, _Found] = {}

    def add(key: _Key, result: _Found) -> None:
        keep(key, result)
        results[key] = result
        minutes = (time.monotonic() - began) / len(results) * (len(arguments) - len(results)) / 60
        estimate = f", about {minutes:.0f} min left" if minutes > 1 else ""
        options.progress(f"{len(results)} of {len(arguments)} {unit}{estimate}")

    workers = min(options.processes or os.cpu_count() or 1, len(arguments))
    began = time.monotonic()
    options.progress(f"0 of {len(arguments)} {unit}")
    if workers <= 1:
        with _one_thread():
            for key, call_arguments in arguments.items():
                add(key, work(*call_arguments))
    else:
        with _pool(workers) as pool:
            done = SimpleQueue[Future[_Found]]()  # unlike `as_completed`, leaves no lock taken at a signal
            with processes.uninterrupted(), _without_terminal_signals():
                keys = {pool.submit(_trial, work, *call_arguments): key for key, call_arguments in arguments.items()}
                for trial in keys:
                    trial.add_done_callback(done.put)
            for _ in arguments:
                trial = done.get()
                add(keys[trial], trial.result())
    return {key: results[key] for key in arguments}


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for PyTorch, as in a trial's process: sums depend on the number of threads."""
    import torch

    threads = torch.get_num_threads()
    _limit_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Context: processes for trials. If a trial fails or the command is stopped, they and their children end at once.

    The executor alone would wait for running trials.
    """
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin)
    try:
        yield pool
    except BaseException:
        for child in set(active_children()) - others:
            child.terminate()
        # at exit Python wakes the executor's thread, which must not be closing its wake-up pipe
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _without_terminal_signals() -> Iterator[None]:
    """Context: processes started inside never see SIGINT and SIGHUP.

    A terminal sends these signals to all processes: each process would print a traceback, or end before the command
    ends it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Set up a process for trials: it has one thread, and ends with the command, even if the command is killed."""
    stopped, stopping = os.pipe()
    threading.Thread(target=_end_in_time, args=(stopped,), daemon=True).start()
    signal.signal(signal.SIGTERM, partial(_stop, stopping))
    try:
        _limit_threads()
    except SystemExit:  # the executor would print the exception
        _end()


def _end_in_time(stopped: int) -> None:
    """End this process when the command ends, or soon after the pipe `stopped` reports a stop."""
    parent = parent_process()
    assert parent is not None, "runs in a process of the pool"
    if parent.sentinel not in wait([parent.sentinel, stopped]):
        parent.join(processes.GRACE)
    _end()


def _trial(work: Callable[..., _Found], *arguments: Any) -> _Found:
    try:
        processes.refuse_stopped()  # the signal may have come while the executor took the last result
        return work(*arguments)
    except SystemExit:  # else the executor begins the next trial
        _end()


def _stop(stopping: int, *_: object) -> None:
    """Stop a trial by an exception, so that unfinished files are deleted, and end this process soon in any case.

    A handler starts no thread: the interrupted thread may hold the lock that starting a thread takes.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the executor sends SIGTERM again
    os.write(stopping, b"\0")
    processes.stop(SystemExit(1))


def _end() -> NoReturn:
    """End this process and its child processes, even in the middle of a trial."""
    processes.end_all()
    os._exit(1)


def _limit_threads() -> None:
    import torch

    torch.set_num_threads(1)


def mean_and_deviation(values: Iterable[float]) -> dict[str, float]:
    """``mean`` and sample standard ``deviation`` in percent, two decimals."""
    percent = 100 * np.array(list(values))
    deviation = float(percent.std(ddof=1)) if len(percent) > 1 else 0.0
    return {"mean": round(float(percent.mean()), 2), "deviation": round(deviation, 2)}
