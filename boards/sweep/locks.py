"""Locks between processes that share a journal; a lock ends with its process, even if the process is killed.

A lock is a byte of a file next to the journal; the kernel locks the byte, over NFS the server does. Locks belong to a
process: two studies in one process do not exclude each other.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WRITE, _CLAIM, _TRIALS = range(3)


class Locks:
    """Locks of a journal, in the file JOURNAL``.lock``."""

    def __init__(self, journal: Path) -> None:
        self._file = os.open(journal.with_name(f"{journal.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)

    def acquire(self) -> bool:
        """Wait for the right to write to the journal; called by Optuna."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _WRITE)
        return True

    def release(self) -> None:
        """Release the right to write; called by Optuna."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _WRITE)

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Context with the exclusive right to choose trials."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _CLAIM)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _CLAIM)

    def take(self, trial: int) -> bool:
        """Mark a trial as running in this process; False if the trial runs in another process."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _TRIALS + trial)
        except OSError:
            return False
        return True

    def drop(self, trial: int) -> None:
        """Mark a trial as no longer running in this process."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _TRIALS + trial)

    def close(self) -> None:
        os.close(self._file)
