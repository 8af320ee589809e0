"""A package in a folder with spaces in its path: everything buildable here works."""

import json
import shutil
import subprocess
import sys

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.packaging import core_package
from fabtune.scripts.outputs import OutputFolder

from ..small_cores import zotrain

COMPILER = shutil.which("cc") or shutil.which("gcc")
HOME = "my boards/fab tune"


@pytest.fixture(name="home", scope="module")
def _home(tmp_path_factory):
    """Folder of a package for all targets, with a logic analyser."""
    folder = tmp_path_factory.mktemp("spaces") / HOME
    OutputFolder(folder, force=True, default=False).write(core_package(zotrain(monitor=True), BOARDS["kv260"]))
    return folder


def run(*command, cwd=None):
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
def test_the_programs_for_linux_are_made_and_run(home):
    done = run("make", "-C", home / "linux", "selftest")
    assert (done.returncode, done.stderr) == (0, "")
    done = run(home / "linux" / "selftest", "--poll", "/no device", "udmabuf0", home / "selftest" / "selftest.bin")
    assert (done.returncode, done.stderr) == (2, "/no device: No such file or directory\n")
    done = run(home / "linux" / "selftest")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert run("make", "-C", home / "linux", "clean").returncode == 0
    assert not (home / "linux" / "selftest").exists()


@pytest.mark.skipif(shutil.which("dtc") is None, reason="dtc is not installed: apt install device-tree-compiler")
def test_the_overlay_is_made_with_the_rate_that_vivado_reached(home):
    (home / "out").mkdir(exist_ok=True)
    (home / "out" / "zotrain.clock").write_text("187498123\n")
    done = run("make", "-C", home / "linux", "zotrain.dtbo", "INTERRUPT_PARENT=imux")
    assert done.returncode == 0, done.stderr
    text = run("dtc", "-q", "-I", "dtb", "-O", "dts", home / "linux" / "zotrain.dtbo").stdout
    assert f"assigned-clock-rates = <0x{187_498_123:x}>" in text
    assert "imux" in text


@pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
def test_the_memory_for_bare_metal_is_assembled(home):
    done = run(COMPILER, "-c", "selftest_image.S", "-o", "a b.o", cwd=home / "selftest")
    assert (done.returncode, done.stderr) == (0, "")
    assert (home / "selftest" / "a b.o").stat().st_size > (home / "selftest" / "selftest.bin").stat().st_size


def test_the_digests_are_those_of_the_files(home):
    done = run("sha256sum", "--check", "--quiet", "files.sha256", cwd=home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_driver_for_pynq_finds_its_files(home, tmp_path):
    """PYNQ without a board: a one-line error names the missing part."""
    stand_in = "class DefaultIP: pass\nclass Overlay: pass\nallocate = None\n"
    (tmp_path / "pynq.py").write_text(stand_in)
    program = home / "pynq" / "fabtune_core.py"
    code = f"import sys, runpy; sys.path[:0] = {[str(tmp_path), str(program.parent)]!r}; sys.argv[1:] = ['no.bit', 'x']"
    done = run(sys.executable, "-c", f"{code}; runpy.run_path({str(program)!r}, run_name='__main__')")
    assert done.returncode == 2, done.stderr
    assert "there is no file 'no.bit'" in done.stderr
    assert json.loads((home / "pynq" / "fabtune_core.json").read_text())["signature"] == zotrain().signature
