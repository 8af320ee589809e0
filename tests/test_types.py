"""Types of the package: `make types` finds no error."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_types_are_right() -> None:
    # writing mypy's cache takes a fifth of its time; `make types` writes one
    cache = {} if (ROOT / ".mypy_cache").is_dir() else {"MYPY_CACHE_DIR": os.devnull}
    done = subprocess.run(
        ["make", "types"], cwd=ROOT, env=os.environ | cache, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
