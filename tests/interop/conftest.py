"""Modules of this folder: importable here, and in simulators that tests start."""

import os
import sys
from pathlib import Path

import pytest

FOLDER = str(Path(__file__).parent)
sys.path.append(FOLDER)


@pytest.fixture
def importable_bench(monkeypatch):
    """Let a started simulator find the cocotb benches of this folder."""
    found = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([FOLDER, *([found] if found else [])]))
