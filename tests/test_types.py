"""Types of the package: `make types` finds no error."""

import subprocess
from pathlib import Path


def test_types_are_right() -> None:
    done = subprocess.run(["make", "types"], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
