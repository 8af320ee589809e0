"""Signs of life of a silent command: one line that counts seconds on a terminal, lines now and then in a log.

`scripts.progress` has the bars of work whose length is known. This module imports nothing that takes time to load.
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
"""Seconds of silence after which a log gets the first line, and the next ones."""
_TICK = 1.0
"""Seconds between two looks, and between two states of a terminal's line."""
_ERASE = "\r\033[K"


class Heartbeat(threading.Thread):
    """Thread that says what a command is doing.

    Parameters
    ----------
    name : str
        See `doing`, at first.
    stream : file
        Standard error.

    Attributes
    ----------
    doing : str
        What the command does.
    shown : callable or None
        Gives a better line than that, such as one of bars; an empty one where it draws by itself.
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
        """Draw or write a line where it is time for one, until `end`."""
        while not self._ended.wait(_TICK):
            silent = time.monotonic() - self._spoke
            if self._terminal or silent >= EVERY:
                # what is only shown ends no work: nobody reads any more, or a text cannot be made
                with suppress(Exception), self._lock:
                    line = self.shown() if self.shown else f"{self.doing}, {time.monotonic() - self._began:.0f} s"
                    if line and not self._ended.is_set():
                        self._write(line)

    def _write(self, line: str) -> None:
        if self._terminal:  # a line that is broken could not be erased
            line = f"{_ERASE}{line[: shutil.get_terminal_size().columns - 1]}"
        self._stream.write(line if self._terminal else f"{line}\n")
        self._stream.flush()
        self._drawn, self._spoke = self._terminal, time.monotonic()

    def clear(self) -> None:
        """Erase the line on the terminal, before others write there; in a log what they write counts as a line."""
        with self._lock:
            self._spoke = time.monotonic()
            if self._drawn:
                self._stream.write(_ERASE)
                self._stream.flush()
                self._drawn = False

    def end(self) -> None:
        """End the thread, and erase its line."""
        self._ended.set()
        self.clear()


class _Clearing:
    """Standard output or error that erases the heartbeat's line before it is written to."""

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
    """Say on standard error what this command is doing while it says nothing itself.

    Parameters
    ----------
    name : str
        The program, until `doing` says more.
    """
    global _heartbeat
    streams = sys.stdout, sys.stderr
    _heartbeat = own = Heartbeat(name, sys.stderr)
    sys.stdout, sys.stderr = (_Clearing(stream, own.clear) for stream in streams)
    own.start()
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            own.end()
        _heartbeat = None
        sys.stdout, sys.stderr = streams


def doing(text: str) -> None:
    """Change what the heartbeat says: for instance ``estimate zotrain: synthesis``."""
    if _heartbeat:
        _heartbeat.doing = text


@contextmanager
def keeping(kept: Callable[[], str]) -> Iterator[None]:
    """Add to a signal that ends the command what is kept then, for its last line."""
    try:
        yield
    except BaseException as error:
        error.add_note(kept())
        raise


@contextmanager
def shown_by(text: Callable[[], str]) -> Iterator[None]:
    """Let something else give the heartbeat's line; an empty one where it draws on the terminal itself."""
    if not _heartbeat:
        yield
        return
    before = _heartbeat.shown
    _heartbeat.shown = text
    try:
        yield
    finally:
        _heartbeat.shown = before
