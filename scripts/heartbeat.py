"""Signs of life of a silent command: a line that counts seconds on a terminal, lines from time to time in a log.

`scripts.progress` has progress bars for work of known length. All imported modules load fast.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

FIRST, EVERY = 5.0, 10.0
"""Seconds of silence before a log's first line, and before each further line."""
_TICK = 1.0
"""Seconds between two checks, and between updates of a terminal's line."""
_ERASE = "\r\033[K"


class Heartbeat(threading.Thread):
    """Thread that reports a command's activity on a stream, standard error.

    Attributes
    ----------
    doing : str
        Text on what the command does at present.
    shown : callable or None
        Returns the line to show instead, such as progress bars; empty if the bars draw themselves.
    """

    def __init__(self, name: str, stream: IO[str]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._terminal = stream.isatty()
        self._ended = threading.Event()
        self._lock = threading.RLock()
        self._drawn = False
        self._began = time.monotonic()
        self._spoke = self._began - (EVERY - FIRST)
        self.doing = name
        self.shown: Callable[[], str] | None = None

    def run(self) -> None:
        """Draw or write a line when due, until `end`."""
        while not self._ended.wait(_TICK):
            silent = time.monotonic() - self._spoke
            if self._terminal or silent >= EVERY:
                # the work must go on even if nobody reads any more, or the text cannot be made
                with suppress(Exception), self._lock:
                    line = self.shown() if self.shown else f"{self.doing}, {time.monotonic() - self._began:.0f} s"
                    if line and not self._ended.is_set():
                        self._write(line)

    def _write(self, line: str) -> None:
        if self._terminal:  # a wrapped line could not be erased
            line = f"{_ERASE}{line[: shutil.get_terminal_size().columns - 1]}"
        self._stream.write(line if self._terminal else f"{line}\n")
        self._stream.flush()
        self._drawn, self._spoke = self._terminal, time.monotonic()

    def clear(self) -> None:
        """Erase the line on the terminal before other output; in a log other output counts as a line."""
        with self._lock:
            self._spoke = time.monotonic()
            if self._drawn:
                self._stream.write(_ERASE)
                self._stream.flush()
                self._drawn = False

    def end(self) -> None:
        """End the thread, and erase the line."""
        self._ended.set()
        self.clear()


class _Clearing:
    """Standard output or error; a write erases the heartbeat's line first."""

    def __init__(self, stream: IO[str], clear: Callable[[], None]) -> None:
        self._stream, self._clear = stream, clear

    def write(self, text: str) -> int:
        self._clear()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_heartbeat: Heartbeat | None = None


@contextmanager
def heartbeat(name: str) -> Iterator[None]:
    """Context that reports on standard error what a silent command does: ``name``, until `doing` says more."""
    global _heartbeat
    streams = sys.stdout, sys.stderr
    _heartbeat = thread = Heartbeat(name, sys.stderr)
    sys.stdout, sys.stderr = (_Clearing(stream, thread.clear) for stream in streams)
    thread.start()
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            thread.end()
        _heartbeat = None
        sys.stdout, sys.stderr = streams


def doing(text: str) -> None:
    """Change the heartbeat's text: for instance ``estimate zotrain: synthesis``."""
    if _heartbeat:
        _heartbeat.doing = text


@contextmanager
def keeping(remaining: Callable[[], str]) -> Iterator[None]:
    """Context that adds a note to the last line of a command ended by a signal: ``remaining`` says what remains."""
    try:
        yield
    except BaseException as error:
        error.add_note(remaining())
        raise


@contextmanager
def shown_by(text: Callable[[], str]) -> Iterator[None]:
    """Context in which ``text`` returns the heartbeat's line; empty if the caller draws on the terminal."""
    if not _heartbeat:
        yield
        return
    before = _heartbeat.shown
    _heartbeat.shown = text
    try:
        yield
    finally:
        _heartbeat.shown = before
