"""Yosys in a child process: an error inside it would end ours."""

import subprocess
import sys
import tempfile
from pathlib import Path

from ..golden.errors import UserError

_CHILD = """\
import sys
from pyosys import libyosys as ys
design = ys.Design()
ys.run_pass("tee -q -o /dev/null log", design)
for line in open(sys.argv[1]):
    ys.run_pass(line.rstrip("\\n"), design)
"""


def run(commands: list[str]) -> None:
    """Run Yosys commands in order; they read and write files by themselves.

    Raises
    ------
    UserError
        With Yosys's own first error line.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".ys") as script:
        script.write("\n".join(commands) + "\n")
        script.flush()
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, script.name], capture_output=True, text=True, check=False
        )
    if done.returncode:
        said = (done.stdout + done.stderr).splitlines()
        errors = [line for line in said if "ERROR" in line] or said[-1:] or [f"exit status {done.returncode}"]
        raise UserError(f"Yosys: {errors[0].strip()}")


def quoted(path: Path) -> str:
    """A path as Yosys reads it."""
    return f'"{path}"'
