"""Code of the page on test benches: its cocotb and pytest tests run unchanged."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fabtune.sim.simulator import find

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "own-test-bench.md").read_text()
CODE = dict(re.findall(r"^`(test_\w+\.py)`\n\n<!-- not run: [^\n]+ -->\n\n```python\n(.*?)^```$", PAGE, re.M | re.S))


@pytest.fixture(name="quick_build")
def _quick_build():
    """Icarus, which builds fastest, otherwise Verilator."""
    return "icarus" if find("icarus") else "verilator"


@pytest.mark.slow  # also covered by the pytest test and the package's cocotb test
def test_the_tests_in_cocotb_pass(packages, make, quick_build):
    folder = packages("zotrain") / "tb"
    (folder / "test_mine.py").write_text(CODE["test_mine.py"])
    try:
        status, out = make(packages("zotrain"), f"SIM={quick_build}", "COCOTB_TEST_MODULES=test_mine")
    finally:
        (folder / "test_mine.py").unlink()
    assert status == 0, out[-3000:]
    cases = ElementTree.parse(folder / f"results-{quick_build}.xml").iter("testcase")
    assert {case.get("name") for case in cases} == {*re.findall(r"async def (\w+)\(dut\)", CODE["test_mine.py"])}


@pytest.mark.slow
def test_a_failing_test_is_a_status(packages, make, quick_build):
    folder = packages("zotrain") / "tb"
    wrong = CODE["test_mine.py"].replace('("read_slverr", 0)', '("read_slverr", 16)')
    assert wrong != CODE["test_mine.py"]
    (folder / "test_wrong.py").write_text(wrong)
    chosen = ("COCOTB_TEST_MODULES=test_wrong", "COCOTB_TEST_FILTER=memory_errors")
    try:
        status, out = make(packages("zotrain"), f"SIM={quick_build}", *chosen)
    finally:
        (folder / "test_wrong.py").unlink()
    assert status != 0
    assert "('read_slverr', 0)" in out


def pytest_in(folder):
    """Run pytest with only fabtune's plugin, loaded as its entry point does."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "fabtune.sim.pytest_plugin", "-p", "no:cacheprovider"]
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run([*command, "-W", "error"], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_test_in_pytest_passes(packages, tmp_path):
    shutil.copytree(packages("zotrain"), tmp_path / "core", ignore=shutil.ignore_patterns("tb"))
    (tmp_path / "test_core.py").write_text(CODE["test_core.py"])
    done = pytest_in(tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1].split(" in ")[0]) == (0, "1 passed"), done.stdout
    settings = (tmp_path / "core" / "spec.json").read_text()
    (tmp_path / "core" / "spec.json").write_text(settings.replace('"lanes": 16', '"lanes": 99'))
    done = pytest_in(tmp_path)
    assert done.returncode == 1
    assert "core/spec.json: " in done.stdout


def test_pytest_finds_the_plugin_where_fabtune_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    assert module == "fabtune.sim.pytest_plugin"
    assert hasattr(import_module(module), "fabtune_core")
