"""Builds are cached: what has not changed is not built again, and what has changed is."""

import dataclasses

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.rng.urng import UrngSpec
from fabtune.hw.verilog import emit
from fabtune.sim import simulator as module
from fabtune.sim.verify import verify

SPEC = UrngSpec(n=3, bits=4)


@pytest.fixture
def built(tmp_path, monkeypatch, fast_simulator):
    """Build a design; which simulators ran to do it."""
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
