# amaranth: UnusedElaboratable=no
"""The core of docs/composing-a-core.md: golden against RTL by the host driver, self-test, bench, package."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from fabtune.boards.board import board
from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.boards.fit import BoardFit
from fabtune.boards.host.driver import Core, CoreError
from fabtune.boards.packaging import core_package, selftest_of
from fabtune.golden.cores.zeroth_order.registers import Command, Error
from fabtune.hw.verilog import emit
from fabtune.sim.compiled.build import build
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram
from fabtune.sim.verify import verify

SOURCE = Path(__file__).with_name("slope_meter.py")
PAGE = Path(__file__).parents[3] / "docs" / "composing-a-core.md"


def _module():
    found = importlib.util.spec_from_file_location("slope_meter", SOURCE)
    sys.modules["slope_meter"] = module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


meter = _module()


@pytest.fixture(scope="module")
def spec():
    return meter.SlopeMeterSpec()


def simulated(spec, dram=None):
    return Core.on(spec, SimulatedDevice(build(emit(spec).verilog, spec.name, spec.memory_ports), dram, limit=200_000))


@pytest.mark.parametrize("dram", [Dram(), Dram.stressed(0.4)], ids=["dram", "stalled"])
def test_slopes_are_goldens_and_deltas_stay(spec, dram):
    slopes, uphill, deltas = meter.measure(Core.on(spec, "golden"), spec)
    assert sorted(np.sign([slope.coefficient for slope in slopes])) == [-1, 1]
    assert uphill == 1
    measured, measured_uphill, measured_deltas = meter.measure(simulated(spec, dram), spec)
    for slope, expected in zip(measured, slopes, strict=True):
        assert (slope.position, slope.coefficient, slope.difference) == (
            expected.position,
            expected.coefficient,
            expected.difference,
        )
        np.testing.assert_array_equal(slope.words, expected.words)
    assert measured_uphill == uphill
    assert not deltas.any()
    np.testing.assert_array_equal(measured_deltas, deltas)


@pytest.mark.parametrize(
    ("command", "settings", "error", "value"),
    [
        (Command.TRAIN, {"steps": 0}, Error.ZERO_LENGTH, 0),
        (Command.TRAIN, {"steps": 1, "sample_count": 1, "batch": 257}, Error.BAD_BATCH, 257),
        (Command.LOAD, {"parameters": 4097}, Error.BAD_ADDRESS, 4097),
    ],
)
@pytest.mark.parametrize("device", ["golden", "rtl"])
def test_wrong_settings_are_refused(spec, device, command, settings, error, value):
    core = simulated(spec) if device == "rtl" else Core.on(spec, "golden")
    with pytest.raises(CoreError) as caught:
        core.run(command, **settings)
    assert (caught.value.code, caught.value.address) == (error, value)


def test_self_test_and_driver_are_those_of_the_core_it_derives_from(spec):
    assert selftest_of(spec).run(simulated(spec))[-1] == "infer"


@pytest.mark.slow
def test_the_bench_compares_it_with_golden(spec, fast_simulator):
    verdict = verify(spec, fast_simulator, words=800)
    assert verdict.passed, verdict
    assert verdict.compared > 3 * 16


@pytest.mark.slow
def test_it_is_packaged_and_estimated(spec):
    files = core_package(spec, board("kv260"), mhz=187.5)
    assert {"ip/component.xml", "selftest/selftest.c", "linux/slope_meter.dts", "README.md"} <= files.keys()
    estimate = estimate_spec(spec, board("kv260").fabric)
    assert max(net.loads for net in estimate.fan_outs) <= 2100
    assert estimate.with_reset < 0.28 * estimate.raw["ff"]
    blocks = {name: estimate.resources[name] for name in ("bram36", "uram", "dsp")}
    assert BoardFit(spec, board("kv260")).needs == blocks
    (fit,) = spec.fits(spec.described, byte_inputs=False)
    assert (fit.refusal, fit.forward) == ("", spec.forward)


def test_the_page_has_the_code_of_the_core():
    source, blocks = SOURCE.read_text(), re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(source.splitlines()) <= 100
    assert all(block in source for block in blocks)
    assert sum(len(block.split()) for block in blocks) > 0.9 * len(source.split())
