# amaranth: UnusedElaboratable=no
"""The core that only runs inference: driven by the host driver in the compiled simulator, compared with golden."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from fabtune.boards.host.driver import Core, CoreError
from fabtune.golden.fixed import Narrower, q8_16_of_bytes
from fabtune.golden.nn.arithmetic.forward import forward
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.hw.verilog import generate
from fabtune.sim.compiled.build import build
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram

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
    """The parameters."""
    return example.InferenceCoreSpec()


@pytest.fixture(scope="module")
def program(spec):
    """The compiled core."""
    return build(generate(spec, block=example.InferenceCore(spec)).verilog, spec.name, ports=1)


@pytest.fixture(name="device")
def _device(program):
    return SimulatedDevice(program, limit=200_000)


def driver(device, spec):
    """A driver of the core."""
    return Core(example.CORE, device, device, device.interrupt, spec.signature)


def network(spec, samples):
    """Random parameters and samples, and golden's logits."""
    frozen = random_parameters(spec.described, RNG)
    inputs = RNG.integers(0, 256, (samples, *spec.described.input_shape))
    values = q8_16_of_bytes(inputs)
    for stage, own in zip(spec.described.stages, frozen, strict=True):
        values = forward(stage, own, values, product_of("int64"), Narrower())
    return frozen, inputs, values


@pytest.mark.parametrize("dram", [Dram(), Dram.stressed(0.4)], ids=["dram", "stalled"])
def test_logits_are_goldens(spec, program, dram):
    device = SimulatedDevice(program, dram, limit=200_000)
    core = driver(device, spec)
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
def test_wrong_settings_are_refused(spec, device, command, settings, error, value):
    with pytest.raises(CoreError) as caught:
        driver(device, spec).run(command, **settings)
    assert (caught.value.code, caught.value.address) == (error, value)


@pytest.mark.parametrize(("kind", "register"), [("read", "samples"), ("write", "logits")])
def test_a_bus_error_ends_the_command_and_the_core_goes_on(spec, device, kind, register):
    core = driver(device, spec)
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


def test_the_page_has_the_code_of_the_core():
    source = SOURCE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 6
    for block in blocks:
        assert block in source, block
    lines = {line for block in blocks for line in block.splitlines()}
    for name in ("class Command(", "CORE = ", "class InferenceEngine(", "class InferenceCore(", "def infer("):
        assert any(line.startswith(name) for line in lines), name
