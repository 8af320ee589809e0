"""Programs in child processes, which end with the command: at a signal, an error or a time limit, with all they began.

Each runs in a process group of its own, so that ``make`` and its compilers end together. A command's handler of signals
calls `stop`; threads that wait for a program, or are about to start one, are given the same exception.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

GRACE = 2.0
"""Seconds that programs have to end by themselves after SIGTERM."""

_running: set[subprocess.Popen[str]] = set()
_stopped: BaseException | None = None
_uninterrupted = False
"""The main thread is in `uninterrupted`."""


def run(
    command: Iterable[str | Path],
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program without standard input, and keep what it prints.

    Parameters
    ----------
    command : iterable of str or Path
        Program and arguments.
    folder : Path, optional
        Working directory.
    env : mapping of str to str, optional
        Environment variables, all of them.
    seconds : float, optional
        Time after which it is ended.
    merged : bool
        Standard error goes where standard output goes.

    Raises
    ------
    OSError
        If the program cannot be started.
    subprocess.TimeoutExpired
        If it takes longer than `seconds`; it has ended then.
    """
    child = None
    try:
        refuse_stopped()
        with uninterrupted():
            child = subprocess.Popen(
                list(command),
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                process_group=0,
            )
            _running.add(child)
        out, err = child.communicate(timeout=seconds)
        refuse_stopped()
    except BaseException:
        if child:
            _end([child])
            for pipe in filter(None, (child.stdout, child.stderr)):
                pipe.close()
            child.wait()
        if _stopped:
            raise _stopped from None
        raise
    finally:
        if child:
            _running.discard(child)
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def start(command: Iterable[str | Path], folder: Path, errors: IO[str]) -> subprocess.Popen[str]:
    """Start a program that reads and writes while it runs, until `end`.

    Parameters
    ----------
    command : iterable of str or Path
        Program and arguments.
    folder : Path
        Working directory.
    errors : file
        Receives standard error.

    Raises
    ------
    OSError
        If the program cannot be started.
    """
    refuse_stopped()
    child = None
    try:
        with uninterrupted():
            child = subprocess.Popen(
                list(command),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
                process_group=0,
            )
            _running.add(child)
    except BaseException:
        if child:
            end(child)
        raise
    return child


def end(child: subprocess.Popen[str]) -> None:
    """End a program that was started."""
    _running.discard(child)
    child.kill()
    for pipe in filter(None, (child.stdin, child.stdout)):
        with contextlib.suppress(OSError):  # what was not sent any more
            pipe.close()
    child.wait()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let `stop` raise its exception at the end of a block: within, it would lose a process or leave a lock taken.

    Blocked signals do not suffice: another thread receives them, and the main thread runs their handler all the same.
    """
    global _uninterrupted
    before = _uninterrupted
    _uninterrupted = before or threading.current_thread() is threading.main_thread()
    try:
        yield
    finally:
        _uninterrupted = before
    if not before:
        refuse_stopped()


def refuse_stopped() -> None:
    """Raise the exception with which programs were stopped, if they were."""
    if _stopped:
        raise _stopped


def stop(error: BaseException) -> None:
    """End all programs and raise an exception, in the main thread, for a handler of signals.

    Where the main thread is in `uninterrupted`, the end of that block raises the exception.
    """
    global _stopped
    _stopped = error
    end_all()
    if not _uninterrupted:
        raise error


def resume() -> None:
    """Let programs start again after `stop`."""
    global _stopped
    _stopped = None


def end_all() -> None:
    """End all programs that run."""
    _end(list(_running))


def _end(children: list[subprocess.Popen[str]]) -> None:
    """End programs with all that they started: SIGTERM, and SIGKILL for those that are there after `GRACE`."""
    deadline = time.monotonic() + GRACE
    left = [child for child in children if _send(child, signal.SIGTERM)]
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        for child in left:
            child.poll()  # a program that has ended counts until somebody has asked
        left = [child for child in left if _send(child, 0)]
    for child in left:
        _send(child, signal.SIGKILL)


def _send(child: subprocess.Popen[str], number: int) -> bool:
    """Send a signal to a program and all that it started; False where none of them is left."""
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):  # macOS refuses where the group has ended
        return False
    return True
