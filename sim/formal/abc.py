"""Run ABC, the logic synthesis and verification program that comes with Yosys."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ...golden.errors import UserError
from ...hw import processes


def run_abc(folder: Path, commands: Iterable[str], seconds: float | None = None) -> str:
    """Run commands of ABC, and give what it prints.

    Parameters
    ----------
    folder : Path
        Working directory, in which the commands read and write files.
    commands : iterable of str
        Commands of ABC.
    seconds : float, optional
        Time after which it is ended; the result is empty then.

    Raises
    ------
    UserError
        If it is not installed.
    """
    try:
        return processes.run([str(_program()), "-q", "; ".join(commands)], folder, seconds=seconds).stdout
    except subprocess.TimeoutExpired:
        return ""


@cache
def _program() -> Path:
    package = find_spec("pyosys")
    program = Path(package.origin or "").parent / "yosys-abc" if package else None
    if not program or not program.exists():
        raise UserError("yosys-abc is not installed: pip install pyosys")
    return program
