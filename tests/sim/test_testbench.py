"""Host and memory for users' tests: the tests of `testbench_tests.py` in a simulator."""

import os
from pathlib import Path

import pytest

from fabtune.hw.verilog import emit
from fabtune.sim.simulator import simulate

from ..small_cores import ONE_STAGE, zotrain

TESTS = Path(__file__).parents[1]


@pytest.fixture(name="failures")
def _failures(monkeypatch, fast_simulator):
    """Failures of a cocotb test module on a small core."""

    def run(module):
        monkeypatch.setenv(
            "PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS / "sim"), os.environ.get("PYTHONPATH", "")])
        )
        return simulate(emit(zotrain(**ONE_STAGE, cut_rows=0)), {"seed": 1}, fast_simulator, bench=module).failures

    return run


@pytest.mark.slow
def test_host_and_memory(failures):
    assert failures("testbench_tests") == ()
