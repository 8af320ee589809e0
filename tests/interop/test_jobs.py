"""Whole jobs on both emitted cores, driven by cocotbext-axi from the SystemRDL and the pages alone.

Addresses, codes and reset values come from the registers' SystemRDL; images follow docs/memory-images.md. No driver,
layout or bench of fabtune takes part; golden gives the expected numbers.
"""

import random

import memory_images as page
import numpy as np
import pytest
from memory_images import stages_of
from register_model import OKAY, WORD, RegisterModel, elaborated, place

from fabtune.golden.fixed import Q4_12, q8_16_of_bytes
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.lora.forward_cache import ForwardCache, record_layout
from fabtune.golden.lora.job import Job
from fabtune.golden.nn.arithmetic.forward import StageIntegers
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.network_model import NetworkModel
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.hw.verilog import emit
from fabtune.sim.simulator import simulate

from ..small_cores import instantft, zotrain

pytestmark = pytest.mark.usefixtures("importable_bench")

# cores of tests/sim/cores, with shared builds
ADAPTERS = instantft()
ZEROTH = zotrain()
PATIENCE = 400_000
"""Cycles that a command may take."""
ALL = (1 << 32) - 1


class Host:
    """Script of a host that knows only the SystemRDL: registers by name, regions at any multiple of a beat."""

    def __init__(self, spec, folder, seed):
        documents = spec.documents()
        (name,) = (one for one in documents if one.endswith(".rdl"))
        (folder / name).write_text(documents[name])
        self.model, self.script, self.kept = RegisterModel(elaborated(folder / name)), [], {}
        self.random, self.free = random.Random(seed), 0xA7_FFFF_E000 + 16 * 0x123
        self.read("signature", self.model.values[self.model.address["signature"]])
        self.write("interrupt_enable", place(self.model.field("interrupt_enable.finished")))

    def write(self, name, value):
        """Write a register."""
        data = int(value).to_bytes(WORD, "little").hex()
        self.script.append(("write", self.model.address[name], data, OKAY))

    def read(self, name, value, mask=ALL):
        """Read a register."""
        self.script.append(("read", self.model.address[name], OKAY, mask, int(value)))

    def region(self, register, size, image=b""):
        """Choose an address for a region, fill the region, and write the address register; the address."""
        address = self.free
        self.free += -(-size // 16) * 16 + 16 * self.random.randrange(1, 300)
        if image:
            self.script.append(("put", address, image.hex()))
        self.write(register, address & ALL)
        self.write(f"{register}_high", address >> 32)
        return address

    def image(self, register, image):
        """A region with an image."""
        return self.region(register, len(image), image)

    def keep(self, name, address, size):
        """Bytes to read from memory at the end."""
        self.kept[name] = (address, size)

    def run(self, command, locked=(), **counters):
        """Run a command to its interrupt; meanwhile writes to settings are ignored."""
        done = place(self.model.field("status.done"))
        self.write("command", self.model.codes("command.value")[command])
        for name in locked:
            self.write(name, self.random.getrandbits(32))
        self.script.append(("interrupt", 1, PATIENCE))
        self.read("status", done)
        self.read("error_address", 0)
        self.read("error_address_high", 0)
        self.read("interrupt", place(self.model.field("interrupt.finished")))
        self.write("interrupt", place(self.model.field("interrupt.finished")))
        self.script.append(("interrupt", 0, 8))
        for name, value in counters.items():
            self.read(name, value)

    def played(self, spec, pauses):
        """Play the script; final memory contents, by name."""
        plan = {"seed": self.random.random(), "pauses": pauses, "script": self.script, "kept": self.kept}
        run = simulate(emit(spec), plan, "verilator", bench="bench_axi")
        assert run.failures == ()
        return {name: bytes.fromhex(data) for name, data in run.tests.items()}


def network_of(spec, rng):
    """Random parameters of the spec's network, and the bytes of the image."""
    frozen = [
        StageIntegers(
            Q4_12.from_float(rng.normal(0, (2 / np.prod(one.weight_shape[1:])) ** 0.5, one.weight_shape)),
            rng.integers(-400, 400, one.biases),
        )
        for one in spec.described.stages
    ]
    weights, biases = [one.weight for one in frozen], [one.bias for one in frozen]
    return frozen, page.write_parameters(stages_of(spec.described), weights, biases, spec.lanes, spec.columns)


def adapters_job(folder, seed, pauses, change=lambda script: None):
    """Load, tune two epochs, infer, save: differences to golden, by name."""
    spec, rng, count, size, rate = ADAPTERS, np.random.default_rng(seed), 7, 3, 5243
    stages, network, classes = stages_of(spec.described), spec.described, spec.described.classes
    frozen, parameters = network_of(spec, rng)
    inputs = rng.integers(0, 256, (count, *network.input_shape))
    x, labels = q8_16_of_bytes(inputs), rng.integers(0, classes, count)
    shape = spec.mapping.shape
    a = [np.rint(rng.normal(0, inputs**-0.5, (shape.rank, inputs)) * 4096).astype(int) for inputs in shape.inputs]
    b = [np.rint(rng.normal(0, 0.05, (classes, shape.rank)) * 4096).astype(int) for _ in shape.inputs]
    orders = [rng.permutation(count) for _ in range(2)]
    batches = [order[at : at + size] for order in orders for at in range(0, count, size)]
    job = Job(network, frozen, Adapters.of(shape, a, b), rate, ForwardCache(network, record_layout(network), count))
    tuned = np.concatenate([job.batch(x[one], labels[one], one).logits for one in batches])

    host = Host(spec, folder, seed)
    host.image("parameters", parameters)
    host.image("samples", page.write_samples(inputs, as_bytes=True))
    adapters = page.write_adapters(stages, a, b, spec.lanes, spec.columns)
    host.image("adapters", adapters)
    host.image("order", page.write_order([(one, labels[one]) for one in batches]))
    record = page.record_bytes(stages, spec.lanes)
    cache = host.region("cache", count * record)
    row = len(page.beats(bytes(4 * classes)))
    host.keep("tuned", host.region("logits", len(tuned) * row), len(tuned) * row)
    host.keep("cache", cache, count * record)
    mode = place(host.model.field("mode.write_logits"))
    settings = {"cache_entries": count, "samples_per_epoch": count, "epochs": 2, "batch": size, "rate": rate}
    for name, value in (settings | {"mode": mode}).items():
        host.write(name, value)
    host.run("load", batches=0)
    host.run("load_adapters")
    host.run("tune", locked=("order", "rate"), batches=len(batches), misses=count, saturations=job.saturations)
    host.read("rate", rate)
    host.keep("adapters", host.region("adapters", len(adapters)), len(adapters))
    host.run("save_adapters")
    one_epoch = [np.arange(at, min(at + size, count)) for at in range(0, count, size)]
    host.image("order", page.write_order([(one, labels[one]) for one in one_epoch]))
    host.write("epochs", 1)
    host.region("cache", 2 * spec.batch * page.record_bytes(stages, spec.lanes, raw=True))
    host.keep("inferred", host.region("logits", count * row), count * row)
    host.run("infer", batches=len(one_epoch), misses=count)
    host.run("forget")
    change(host.script)

    found = host.played(spec, pauses)
    pairs = job.adapters.pairs()
    got_a, got_b = page.read_adapters(stages, found["adapters"], shape.rank, spec.lanes, spec.columns)
    records, _ = page.read_records(stages, found["cache"], spec.lanes)
    return {
        "tuned": (page.read_logits(found["tuned"], classes), tuned),
        "inferred": (page.read_logits(found["inferred"], classes), job.logits(x)),
        "a": (np.concatenate(got_a, axis=1), np.concatenate([one for one, _ in pairs], axis=1)),
        "b": (np.concatenate(got_b, axis=1), np.concatenate([one for _, one in pairs], axis=1)),
        "records": (records, job.cache.codec.dequantise(job.cache.records)),
    }


def zeroth_order_job(folder, seed, pauses):
    """Load, load deltas, train, save, infer: differences to golden, by name."""
    spec, rng, count, size, steps = ZEROTH, np.random.default_rng(seed), 9, 4, 3
    stages, network, classes = stages_of(spec.described), spec.described, spec.described.classes
    frozen, parameters = network_of(spec, rng)
    inputs = rng.integers(0, 256, (count, *network.input_shape))
    x, labels = q8_16_of_bytes(inputs), rng.integers(0, classes, count)
    drawn = [rng.integers(0, count, n) for n in (4, 3, 4)]
    sizes = [len(one) for one in drawn]
    rates, common = StepSettings().with_rates([2e-3] * steps, sizes, PerturbationTable(spec.source))
    position = 1234
    job = ZerothOrderJob(NetworkModel(spec.mapping, frozen), spec.source, common, position)
    job.total = rng.integers(-(1 << 20), 1 << 20, job.total.shape)
    rows = page.delta_rows(stages, spec.lanes, spec.columns)
    start = job.rows.copy()

    host = Host(spec, folder, seed)
    host.image("parameters", parameters)
    host.image("deltas", page.write_deltas(start))
    host.image("samples", page.write_samples(inputs, as_bytes=True))
    order = [(rate, one, labels[one]) for rate, one in zip(rates, drawn, strict=True)]
    host.image("order", page.write_steps(order, size))
    host.image(
        "state", page.beats(np.packbits(spec.source.serial(position).astype(np.uint8), bitorder="little").tobytes())
    )
    record = len(page.beats(bytes(4 * size))) + page.BEAT
    host.keep("records", host.region("records", steps * record), steps * record)
    host.region("logits", 0)
    settings = {"sample_count": count, "steps": steps, "batch": size, "position": position, "eps_shift": 10}
    settings |= {"shift": common.shift, "cut": 0, "p1": 1, "p2": 1, "gap": job.layout.span - rows, "scalars": 0}
    for name, value in settings.items():
        host.write(name, value)
    host.run("load", steps_done=0)
    host.run("load_deltas")
    slopes = [slope for rate, one, label in order for slope in job.step(x[one], label, rate)]
    counters = {"saturations": job.saturations, "coefficients_clipped": job.coefficients_clipped}
    host.run("train", locked=("deltas", "shift"), steps_done=steps, **counters)
    host.read("shift", common.shift)
    image = len(page.write_deltas(start))
    host.keep("deltas", host.region("deltas", image), image)
    host.run("save_deltas")
    entries = sum(map(len, drawn))
    row = len(page.beats(bytes(4 * classes)))
    host.keep("logits", host.region("logits", entries * row), entries * row)
    host.run("infer")

    found = host.played(spec, pauses)
    read = page.read_slopes(found["records"], [len(one) for one in drawn], size)
    return {
        "deltas": (page.read_deltas(found["deltas"], rows, start.shape[1]), job.rows),
        "logits": (page.read_logits(found["logits"], classes), job.logits(x[np.concatenate(drawn)])),
        "records": (
            np.array([one[2:] for one in read]),
            np.array([(one.position, one.coefficient, one.difference) for one in slopes]),
        ),
        "probabilities": (
            np.concatenate([[one.plus, one.minus] for one in read], axis=1),
            np.concatenate([one.probabilities for one in slopes], axis=1),
        ),
    }


JOBS = {"instantft": adapters_job, "zotrain": zeroth_order_job}


def different(pairs):
    return [name for name, (found, expected) in pairs.items() if not np.array_equal(found, expected)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["instantft", "zotrain"])
def test_a_job_gives_golden_s_numbers(name, tmp_path):
    pairs = JOBS[name](tmp_path, seed=1, pauses=0.3)
    assert different(pairs) == []
    assert all(np.any(expected) for _, expected in pairs.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize(("seed", "pauses"), [(2, 0.0), (3, 0.6), (4, 0.1)])
def test_with_other_pauses(name, seed, pauses, tmp_path):
    assert different(JOBS[name](tmp_path, seed, pauses)) == []


@pytest.mark.slow
def test_a_wrong_byte_in_an_image_is_seen(tmp_path):
    """One bit of one weight: only dependent results differ, without any error."""

    def change(script):
        at = next(number for number, step in enumerate(script) if step[0] == "put")
        _, address, data = script[at]
        script[at] = ("put", address, data[:3] + f"{int(data[3], 16) ^ 4:x}" + data[4:])

    assert set(different(adapters_job(tmp_path, 1, 0.0, change))) >= {"tuned", "inferred", "records"}
