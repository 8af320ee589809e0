"""Child processes that end, with all descendants, when the command ends: at a signal, an error or a time limit.

Each child runs in a new process group, so ``make`` and all compilers end together. A signal handler calls
`stop`; threads waiting for or starting a program then get the same exception.
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
"""Seconds between SIGTERM and SIGKILL."""

_running: set[subprocess.Popen[str]] = set()
_stopped: BaseException | None = None
_uninterrupted = False
"""True while the main thread is in `uninterrupted`."""


def run(
    command: Iterable[str | Path],
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program without standard input, and capture its output.

    Parameters
    ----------
    env : mapping of str to str, optional
        Complete environment.
    seconds : float, optional
        Time limit.
    merged : bool
        Redirect standard error to standard output.

    Raises
    ------
    OSError
        If the program cannot be started.
    subprocess.TimeoutExpired
        If the time limit is exceeded; the program has been ended.
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
    """Start a program with pipes for standard input and output; the caller must end it with `end`.

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
    """End a started program."""
    _running.discard(child)
    child.kill()
    for pipe in filter(None, (child.stdin, child.stdout)):
        with contextlib.suppress(OSError):  # unsent input
            pipe.close()
    child.wait()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer the exception of `stop` to the end of a block, so that no process is lost and no lock stays taken.

    Blocking signals does not suffice: another thread receives them, and the main thread still runs their handler.
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
    """Raise the exception that `stop` got, if any."""
    if _stopped:
        raise _stopped


def stop(error: BaseException) -> None:
    """End all programs and raise an exception; for a signal handler, in the main thread.

    Within `uninterrupted`, the exception is raised at the end of the block.
    """
    global _stopped
    _stopped = error
    end_all()
    if not _uninterrupted:
        raise error


def resume() -> None:
    """Allow programs to start again after `stop`."""
    global _stopped
    _stopped = None


def end_all() -> None:
    """End all running programs."""
    _end(list(_running))


def _end(children: list[subprocess.Popen[str]]) -> None:
    """End programs with all descendants: SIGTERM, then SIGKILL for survivors after `GRACE`."""
    deadline = time.monotonic() + GRACE
    alive = [child for child in children if _send(child, signal.SIGTERM)]
    while alive and time.monotonic() < deadline:
        time.sleep(0.01)
        for child in alive:
            child.poll()  # reap ended programs
        alive = [child for child in alive if _send(child, 0)]
    for child in alive:
        _send(child, signal.SIGKILL)


def _send(child: subprocess.Popen[str], number: int) -> bool:
    """Send a signal to a program's process group; False if the group has ended."""
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):  # macOS: permission error for an ended group
        return False
    return True
