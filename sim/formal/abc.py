"""Run ABC, the logic synthesis and verification program bundled with Yosys."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ...golden.errors import UserError
from ...hw import processes


def run_abc(folder: Path, commands: Iterable[str], seconds: float | None = None) -> str:
    """Run ABC commands in `folder` and return the printed text, empty if `seconds` run out.

    Raises
    ------
    UserError
        If yosys-abc is not installed.
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
