# amaranth: UnusedElaboratable=no
"""The inference-only core, driven by the host driver in the compiled simulator, against golden."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from fabtune.boards.board import board
from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.boards.fit import BoardFit
from fabtune.boards.host.driver import CoreError
from fabtune.boards.packaging import core_package, selftest_of
from fabtune.sim.compiled.session import Dram
from fabtune.sim.verify import verify

SOURCE = Path(__file__).with_name("inference_core.py")
PAGE = Path(__file__).parents[3] / "docs" / "composing-a-core.md"
RNG = np.random.default_rng(11)


def _module():
    """Import the file beside this one."""
    found = importlib.util.spec_from_file_location("inference_core", SOURCE)
    sys.modules["inference_core"] = module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


example = _module()


@pytest.fixture(scope="module")
def spec():
    return example.InferenceCoreSpec()


def network(spec, samples):
    """Random parameters and samples, and the golden logits."""
    frozen, inputs = example.job(spec, RNG, samples)
    return frozen, inputs, example.golden(spec, frozen, inputs)


@pytest.mark.parametrize("dram", [Dram(), Dram.stressed(0.4)], ids=["dram", "stalled"])
def test_logits_are_goldens(spec, dram):
    core, _ = example.simulated(spec, dram)
    for samples in (5, 1, 3):
        frozen, inputs, expected = network(spec, samples)
        np.testing.assert_array_equal(example.infer(core, spec, frozen, inputs), expected)
        assert core.read("inferred") == samples


@pytest.mark.parametrize(
    ("command", "settings", "error", "value"),
    [
        (example.Command.INFER, {"count": 0}, example.Error.ZERO_LENGTH, 0),
        (example.Command.INFER, {"count": 1, "samples": 4104}, example.Error.BAD_ADDRESS, 4104),
        (example.Command.LOAD, {"parameters": 4097}, example.Error.BAD_ADDRESS, 4097),
    ],
)
def test_wrong_settings_are_refused(spec, command, settings, error, value):
    core, _ = example.simulated(spec)
    assert spec.refusal(command, dict.fromkeys(example.CORE.setting_names, 0) | settings) == (error, value)
    with pytest.raises(CoreError) as caught:
        core.run(command, **settings)
    assert (caught.value.code, caught.value.address) == (error, value)


@pytest.mark.parametrize(("kind", "register"), [("read", "samples"), ("write", "logits")])
def test_a_bus_error_ends_the_command_and_the_core_goes_on(spec, kind, register):
    core, device = example.simulated(spec)
    frozen, inputs, expected = network(spec, 4)
    run = core.run

    def faulty(command, **values):
        if register in values:
            device.fault(kind, values[register], 64, "slverr")
        return run(command, **values)

    core.run = faulty
    with pytest.raises(CoreError) as caught:
        example.infer(core, spec, frozen, inputs)
    assert caught.value.code == example.Error[f"{kind}_slverr".upper()]
    core.run = run
    device.no_faults()
    np.testing.assert_array_equal(example.infer(core, spec, frozen, inputs), expected)


def test_nothing_else_knows_the_core_and_its_self_test_passes(spec):
    core, _ = example.simulated(spec)
    assert selftest_of(spec).run(core) == ["load the network", "infer"]


def test_the_file_runs_as_a_script(capsys):
    example.main()
    assert capsys.readouterr().out == "0 differences, 5 samples\n"


@pytest.mark.slow
def test_the_bench_compares_it_with_golden(spec, fast_simulator):
    verdict = verify(spec, fast_simulator, words=300)
    assert verdict.passed, verdict
    assert verdict.compared > 3 * 16


@pytest.mark.slow
def test_it_is_packaged_and_estimated(spec):
    files = core_package(spec, board("kv260"), mhz=187.5)
    assert {"ip/component.xml", "selftest/selftest.c", "linux/inference_core.dts", "README.md"} <= files.keys()
    found = estimate_spec(spec, board("kv260").fabric)
    assert max(net.loads for net in found.fan_outs) < 1000
    assert found.with_reset < 0.28 * found.raw["ff"]
    blocks = {name: found.resources[name] for name in ("bram36", "uram", "dsp")}
    assert BoardFit(spec, board("kv260")).needs == blocks
    (fit,) = spec.fits(spec.described, byte_inputs=True)
    assert (fit.refusal, fit.forward) == ("", spec.forward)


def test_the_page_has_the_code_of_the_core():
    source = SOURCE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 6
    for block in blocks:
        assert block in source, block
    lines = {line for block in blocks for line in block.splitlines()}
    for name in (
        "class Command(",
        "CORE = ",
        "class InferenceEngine(",
        "class InferenceCore(",
        "def infer(",
        "def selftest(",
    ):
        assert any(line.startswith(name) for line in lines), name
