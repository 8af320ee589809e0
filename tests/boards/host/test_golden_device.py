"""Host driver on a golden core: self-tests, errors, and recordings."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.boards.cores.instantft import selftest as instantft
from fabtune.boards.cores.instantft.job import FineTuner
from fabtune.boards.cores.zostream import selftest as zostream
from fabtune.boards.cores.zotrain.job import ZerothOrderTrainer
from fabtune.boards.cores.zotrain.selftest import selftest
from fabtune.boards.host.driver import Core, CoreError
from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.boards.host.recording import RecordingCore, first_difference
from fabtune.golden.axi.regions import Region
from fabtune.golden.cores.zeroth_order.registers import Command, Error
from fabtune.golden.cores.zostream.golden_core import GoldenZostream
from fabtune.golden.errors import UserError
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.sim.trials.contract import trials_of

from ... import small_cores

TUNERS = {
    "base": {},
    "all options": small_cores.OPTIONS,
    "cache on the chip": {"cache": "chip"},
    "two pixels": {"network": "1x8x8 conv8k3p1 relu pool2 flatten fc10", "columns": 16},
    "biases": {"tunes": "biases"},
    "autoencoder": {"network": "16 fc8 relu fc16", "loss": "mse", "byte_inputs": False},
}
CORES = {
    "base": {},
    "vector": {"network": "70 fc40 relu fc9 relu fc4", "byte_inputs": False, "columns": 2, "cut_rows": 0},
    "two pixels": {"network": "1x8x8 conv8k3p1 relu pool2 flatten fc10", "columns": 16, "cut_rows": 0},
    "residual": {"network": "3x6x6 conv4k3p1 relu conv4k3p1 add@1,2 relu conv8k3s2 relu flatten fc5", "cut_rows": 0},
    "depthwise": {"network": "4x6x6 dw3p1 relu conv6k1 relu flatten fc3", "cut_rows": 0},
    "autoencoder": {"network": "16 fc8 relu fc16", "loss": "mse", "byte_inputs": False, "cut_rows": 0},
    "folded": {"network": "256 fc256 relu fc10", "fold": True, "cut_rows": 0, "columns": 2},
    "Gaussian": {"gaussian": "sum"},
}


def core_on(device, spec):
    core = RecordingCore.on(spec, device)
    core.check_signature(spec.signature)
    return core


@pytest.mark.parametrize("name", CORES)
def test_a_self_test_of_zotrain_runs_on_golden(name):
    spec = small_cores.zotrain(**CORES[name])
    assert len(selftest(spec).run(core_on(GoldenDevice(spec), spec))) == 9


@pytest.mark.parametrize("name", TUNERS)
def test_a_self_test_of_instantft_runs_on_golden(name):
    spec = small_cores.instantft(**TUNERS[name])
    assert len(instantft.selftest(spec).run(core_on(GoldenDevice(spec), spec))) == 11


def test_a_self_test_of_zostream_runs_on_golden(monkeypatch):
    spec, networks, make = small_cores.zostream(), [], zostream.random_images

    def recorded(*arguments, **options):
        networks.append(make(*arguments, **options))
        return networks[-1]

    monkeypatch.setattr(zostream, "random_images", recorded)
    test = zostream.selftest(spec)
    assert len(test.run(core_on(GoldenDevice(spec, GoldenZostream(spec, networks)), spec))) == 17
    with pytest.raises(UserError, match="does not know the program's network: make GoldenZostream with its images"):
        test.run(core_on(GoldenDevice(spec), spec))
    for command in (2, 3, 4, 5, 6):
        settings = {"batch": 1, "steps": 1, "sample_count": 1, "eps_shift": 10, "p1": 1, "p2": 1}
        with pytest.raises(CoreError, match="ended with program_no_program"):
            core_on(GoldenDevice(spec), spec).run(command, **settings)


def test_a_record_that_the_core_did_not_write_is_refused():
    spec = small_cores.instantft()
    device = GoldenDevice(spec)
    host = FineTuner(core_on(device, spec), spec, 6)
    frozen, inputs, _ = job_of(spec)
    labels = np.zeros(6, np.int64)
    with pytest.raises(UserError, match="no adapters have been loaded"):
        host.tune(inputs, labels, [[np.arange(4), np.arange(4, 6)]], 5243)
    host.load(frozen)
    host.load_adapters(Adapters(spec.mapping.shape, np.zeros(spec.mapping.shape.parameters, np.int64)))
    host.tune(inputs, labels, [[np.arange(4), np.arange(4, 6)]], 5243)
    with pytest.raises(UserError, match="the cache has records of another format: forget it first"):
        FineTuner(host.core, spec, 6, raw=True).tune(inputs, labels, [[np.arange(4)]], 5243)
    with pytest.raises(UserError, match="the record of sample 0 at cache is not what the core wrote"):
        FineTuner(host.core, spec, 6).tune(inputs, labels, [[np.arange(4)]], 5243)
    host.forget()
    assert FineTuner(host.core, spec, 6).tune(inputs, labels, [[np.arange(4)]], 5243).finished.counts["misses"] == 4


@pytest.fixture
def host():
    spec = small_cores.zotrain()
    return ZerothOrderTrainer(core_on(GoldenDevice(spec), spec), spec)


def job_of(spec, seed=3):
    rng = np.random.default_rng(seed)
    frozen = random_parameters(spec.described, rng)
    inputs, _, labels = random_samples(spec.described, spec.byte_inputs, 6, rng, spec.labels)
    drawn = [rng.integers(0, 6, 3) for _ in range(2)]
    return frozen, inputs, [StepOrder(indices, labels[indices], 40_000) for indices in drawn]


def test_order_lists_end_as_on_the_rtl(host):
    """`sim.trials` runs the same entries on the compiled core."""
    spec, trials = host.spec, trials_of(host.spec)
    host.load(job_of(spec)[0])
    size = host.layout.samples(job_of(spec)[1]).size
    samples, records = host.core.allocate(size * 4000), host.core.allocate(1 << 16)
    state = host.core.place(host.layout.state(0)).device_address
    addresses = {"samples": samples.device_address, "records": records.device_address, "state": state}
    for entry in trials.entries(spec):
        if entry.error == Error.READ_DECERR or (entry.error is None and entry.settings.get("sample_count", 0) > 20_000):
            continue  # not an address of the samples
        order = host.core.place(Region.containing("order", np.pad(entry.images["order"], (0, 12))))
        settings = trials.usual(spec) | addresses | {"order": order.device_address} | entry.settings
        settings["gap"] = spec.step_registers(StepSettings())["gap"]
        if entry.error is None:
            host.core.run(Command.TRAIN, **settings)
            continue
        with pytest.raises(CoreError) as caught:
            host.core.run(Command.TRAIN, **settings)
        assert (caught.value.code, caught.value.address) == (entry.error, entry.value)


def test_an_access_outside_of_the_buffers_ends_with_the_address_of_its_burst(host):
    frozen, inputs, steps = job_of(host.spec)
    host.load(frozen)
    with pytest.raises(CoreError) as caught:
        host.core.run(Command.LOAD, parameters=1 << 33)
    assert (caught.value.name, caught.value.address) == ("read_decerr", 1 << 33)
    buffer = host.core.allocate(32)
    with pytest.raises(CoreError) as caught:
        host.core.run(Command.SAVE_DELTAS, deltas=buffer.device_address)
    assert (caught.value.name, caught.value.address) == ("write_decerr", buffer.device_address)
    buffer.invalidate()
    assert not buffer.array.any()
    assert host.train(inputs, steps, StepSettings(shift=24), 0).finished.counts["steps_done"] == 2


def test_what_a_core_finds_in_its_memories_at_power_up_is_not_known(host):
    with pytest.raises(UserError, match="no deltas have been loaded"):
        host.deltas()
    host.load(job_of(host.spec)[0])
    host.core.reset()
    with pytest.raises(UserError, match="no parameters have been loaded"):
        host.logits(job_of(host.spec)[1])


def test_settings_that_golden_cannot_follow_are_refused(host):
    frozen, inputs, steps = job_of(host.spec)
    host.load(frozen)
    host.train(inputs, steps, StepSettings(shift=24), 0)
    with pytest.raises(UserError, match="the image at state is not the generator's state at position = 5"):
        host.core.run(Command.TRAIN, position=5)
    with pytest.raises(UserError, match="gap = 3: the golden core has that of the host's jobs, "):
        host.core.run(Command.TRAIN, position=0, gap=3)


def played(spec, **changes):
    frozen, inputs, steps = job_of(spec)
    host = ZerothOrderTrainer(core_on(GoldenDevice(spec), spec), spec)
    host.load(frozen)
    host.train(inputs, steps, replace(StepSettings(shift=24), **changes), 0)
    return host.core.records


def test_the_first_difference_of_recordings_is_named():
    spec = small_cores.zotrain()
    golden = played(spec)
    assert first_difference(golden, played(spec)) is None
    assert first_difference(golden, played(spec, shift=25)) == (
        f"command 2 of 2, {golden[1].described}: shift is 25, golden says 24"
    )
    assert first_difference(golden, golden[:1]) == "1 commands, golden has 2"
    train = golden[1]
    memory = {region: image.copy() for region, image in train.memory.items()}
    memory["records"][[7, 9]] ^= 1
    difference = first_difference(golden, [golden[0], replace(train, memory=memory)])
    right = train.memory["records"][7]
    assert train.settings["records"] == ("records", 0)
    assert train.described.startswith("TRAIN(sample_count=6, steps=2, batch=3, position=0, ")
    values = f"{right ^ 1:#04x}, golden says {right:#04x} (2 bytes differ)"
    assert difference == f"command 2 of 2, {train.described}: byte 7 of records is {values}"
    refused = replace(train, error=("bad_index", 77))
    assert first_difference(golden, [golden[0], refused]).endswith("error is bad_index at 77, golden says nothing")


def test_a_driver_takes_golden_by_name():
    spec = small_cores.zotrain()
    host = ZerothOrderTrainer(Core.on(spec, "golden"), spec)
    frozen, inputs, steps = job_of(spec)
    host.load(frozen)
    trained = host.train(inputs, steps, StepSettings(shift=24), 0)
    assert (trained.finished.cycles, trained.finished.counts["steps_done"]) == (0, 2)
    with pytest.raises(UserError, match="device = 'rtl': 'golden', or an object with registers, memory and interrupt"):
        Core.on(spec, "rtl")


@pytest.mark.parametrize("call", ["fault", "fault_in", "fault_of_buffer", "reset_in", "waves"])
def test_what_takes_a_bus_or_a_clock_is_refused(call):
    device = GoldenDevice(small_cores.zotrain())
    with pytest.raises(UserError, match="the golden core of zotrain has neither bus nor clock: simulate its RTL"):
        getattr(device, call)(0, 1)


def test_a_driver_refuses_the_golden_core_of_another_spec():
    device = GoldenDevice(small_cores.zotrain())
    other = small_cores.zotrain(columns=2)
    with pytest.raises(UserError, match="the bitstream is of other settings"):
        Core(other.registers, device, device, device.interrupt, other.signature)
