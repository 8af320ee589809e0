"""Locks of the processes that share a journal, which end with their process, even one that was killed.

Each is a byte of a file beside the journal, locked by the kernel; over NFS by the server. Locks are a process's: two
studies in one process do not exclude each other.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WRITE, _CLAIM, _TRIALS = range(3)


class Locks:
    """Locks beside a journal.

    Parameters
    ----------
    journal : Path
        The lock file has its name and ``.lock``.
    """

    def __init__(self, journal: Path) -> None:
        self._file = os.open(journal.with_name(f"{journal.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)

    def acquire(self) -> bool:
        """Wait for the right to write to the journal; Optuna calls it."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _WRITE)
        return True

    def release(self) -> None:
        """Give the right to write back; Optuna calls it."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _WRITE)

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Wait for the right to choose trials, and keep it within the context."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _CLAIM)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _CLAIM)

    def take(self, trial: int) -> bool:
        """Mark a trial as running here; False where it runs in another process."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _TRIALS + trial)
        except OSError:
            return False
        return True

    def drop(self, trial: int) -> None:
        """Mark a trial as not running here any more."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _TRIALS + trial)

    def close(self) -> None:
        """Give all locks back."""
        os.close(self._file)
