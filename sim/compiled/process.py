"""Process of a compiled core: lines of commands in, results in JSON out."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...golden.errors import UserError
from ...hw import processes

_GRACE = 5.0
"""Seconds within which a process must end after it has closed its output."""


class Simulator:
    """Process of a compiled core with a folder of its own; both end with this object.

    Parameters
    ----------
    program : Path
        Program from `build.build`; a failed start is a `UserError`.
    arguments : sequence of str
        Plusargs for the Verilog: ``+NAME=VALUE``.

    Attributes
    ----------
    name : str
        Name of the core, for messages.
    folder : Path
        Folder of the commands' files.
    """

    def __init__(self, program: Path, arguments: Sequence[str] = ()) -> None:
        self.name = program.name.split("-compiled-")[0]
        self.folder = Path(tempfile.mkdtemp(prefix="fabtune-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._messages = self.folder / "stderr"
        try:
            with self._messages.open("w") as messages:
                self._process = processes.start([program, *arguments], self.folder, messages)
        except OSError as problem:
            raise UserError(f"{program}: cannot be run: {problem.strerror}: build it again") from None
        weakref.finalize(self, processes.end, self._process)

    def carry_out(self, commands: Sequence[str], timeout: float | None) -> dict[str, Any]:
        """Send commands, lines for ``harness.cpp``, and return their result.

        A `UserError` if the process ends, or exceeds `timeout` seconds and is ended.
        """
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._process.kill()

        watch = threading.Timer(timeout, give_up) if timeout is not None else None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if watch:
            watch.start()
        try:
            self._process.stdin.write("\n".join([*commands, "report"]) + "\n")
            self._process.stdin.flush()
            result: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            processes.refuse_stopped()
            if late.is_set():
                message = f"not done after {timeout} s: allow more time or fewer cycles"
            else:
                message = self._last_words()
            raise UserError(f"{self.name}: {message}") from None
        finally:
            if watch:
                watch.cancel()
        return result

    def _last_words(self) -> str:
        """Read the process's error messages, which may also be from Verilator's library."""
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "it answered with a line that is no result: start another session"
        printed = self._messages.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        problems = [line for line in printed if "rror" in line] or printed[-1:]
        return problems[0].strip() if problems else f"the session has ended, with status {code}: start another"
