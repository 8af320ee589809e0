"""Builds are cached: only a changed design is built again."""

import dataclasses
import re

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.rng.urng import UrngSpec
from fabtune.hw.verilog import emit
from fabtune.sim import simulator as module
from fabtune.sim.verify import verify

SPEC = UrngSpec(n=3, bits=4)


@pytest.fixture
def built(tmp_path, monkeypatch, fast_simulator):
    """Build a design; the simulators that ran."""
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path))
    real, builds = module._build_in, []

    def build_in(emitted, simulator, *rest):
        builds.append(simulator)
        real(emitted, simulator, *rest)

    monkeypatch.setattr(module, "_build_in", build_in)

    def run(emitted=None, waves=""):
        builds.clear()
        folder = module._build(emitted or emit(SPEC), fast_simulator, waves)
        assert any(folder.iterdir())
        return [*builds]

    return run


def test_the_same_is_built_once(built, fast_simulator):
    assert built() == [fast_simulator]
    assert built() == []


def test_another_text_is_another_build(built, fast_simulator):
    built()
    emitted = emit(SPEC)
    other = dataclasses.replace(emitted, verilog=f"{emitted.verilog}\n// changed\n")
    assert built(other) == [fast_simulator]
    assert built() == []


def test_waveforms_are_another_build(built, fast_simulator):
    built()
    assert built(waves="vcd") == [fast_simulator]


@pytest.mark.parametrize("changed", ["tool_version", "package_version"])
def test_another_version_is_another_build(built, fast_simulator, monkeypatch, changed):
    built()
    monkeypatch.setattr(module, changed, lambda name: "another")
    assert built() == [fast_simulator]


def test_a_failed_build_is_not_kept(built, tmp_path):
    wrong = dataclasses.replace(emit(SPEC), verilog="module urng (\n")
    for _ in range(2):
        with pytest.raises(UserError, match="could not build urng"):
            built(wrong)
    assert list((tmp_path / "sim").iterdir()) == []


def test_a_second_verification_builds_nothing(built, fast_simulator):
    assert verify(SPEC, fast_simulator, words=20).passed
    assert built() == []


LEFT_OVER = {
    "COCOTB_TEST_FILTER": "nothing",
    "COCOTB_TESTCASE": "nothing",
    "COCOTB_TEST_MODULES": "nowhere",
    "COCOTB_TOPLEVEL": "other",
    "COCOTB_USER_COVERAGE": "1",
    "COCOTB_RANDOM_SEED": "none",
    "COCOTB_LIST_TESTS": "1",
    "COCOTB_LOG_LEVEL": "nothing",
    "COCOTB_SCHEDULER_DEBUG": "perhaps",
    "COCOTB_MAX_FAILURES": "x",
    "COCOTB_TRUST_INERTIAL_WRITES": "perhaps",
    "GPI_EXTRA": "/nowhere/lib.so:entry",
    "GPI_LOG_LEVEL": "nothing",
    "PYGPI_USERS": "nowhere:entry",
    "COVERAGE": "1",
    "COVERAGE_RCFILE": "/nowhere",
    "TESTCASE": "nothing",
    "MODULE": "nowhere",
    "TOPLEVEL": "other",
    "TOPLEVEL_LANG": "vhdl",
    "RANDOM_SEED": "none",
    "PYTEST_ADDOPTS": "--no-such-option",
    "PYTEST_PLUGINS": "nowhere",
    "PYTHONOPTIMIZE": "1",
    "PYTHONWARNINGS": "error",
}


def test_variables_of_a_users_benches_change_nothing(monkeypatch, fast_simulator):
    plain = verify(SPEC, fast_simulator, words=20)
    for name, value in LEFT_OVER.items():
        monkeypatch.setenv(name, value)
    assert verify(SPEC, fast_simulator, words=20) == plain
    assert plain.passed


def test_a_simulator_without_results_is_an_error_and_no_difference(monkeypatch, fast_simulator):
    monkeypatch.setattr(module, "_OF_OTHER_BENCHES", re.compile("none"))
    monkeypatch.setenv("COCOTB_TEST_FILTER", "nothing")
    with pytest.raises(UserError, match=f"urng on {fast_simulator}: the (bench holds no test|simulator ended)"):
        verify(SPEC, fast_simulator, words=20)
