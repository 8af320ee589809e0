"""Two packages with benches in a folder with spaces, and `make` in them."""

import os
import shlex
import shutil
import subprocess
import sys
from functools import cache

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.packaging import core_package
from fabtune.scripts.outputs import OutputFolder

from ...small_cores import ONE_STAGE, instantft, task, zotrain

SPECS = {"zotrain": zotrain(**ONE_STAGE, cut_rows=0), "instantft": instantft(ports=2)}
TASKS = {
    "zotrain": task(SPECS["zotrain"], steps=2, batch=3, rate=0.02),
    "instantft": task(SPECS["instantft"], epochs=2, batch=4),
}


def written(spec, folder, task=None):
    """Write a core's simulation package."""
    files = core_package(spec, BOARDS["kv260"], ["simulation"], task=task)
    OutputFolder(folder, force=True, default=False).write(files)
    return folder


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """Folder of a core's package, with a user's network and samples."""
    parent = tmp_path_factory.mktemp("packages") / "two cores"
    return cache(lambda name: written(SPECS[name], parent / name, TASKS[name]))


@pytest.fixture(scope="session")
def make(tmp_path_factory):
    """Run make in a package's folder `tb`; returns exit status and output."""
    program = tmp_path_factory.mktemp("bin") / "fabtune"
    python = shlex.quote(sys.executable)
    program.write_text(f"#!/bin/sh\nexec {python} -c 'from fabtune.scripts.cli import main; main()' \"$@\"\n")
    program.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "COCOTB"))}
    builds = tmp_path_factory.mktemp("builds")

    def run(package, *arguments):
        done = subprocess.run(
            ["make", "-C", package / "tb", f"FABTUNE={program}", *arguments],
            env=env | {"TMPDIR": str(builds)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    yield run
    shutil.rmtree(builds, ignore_errors=True)
