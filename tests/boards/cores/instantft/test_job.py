"""Jobs on the compiled core through the host driver, compared with the integer job; and all failure modes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fabtune.boards.cores.instantft.job import FineTuner
from fabtune.boards.host.adapters import Tuned
from fabtune.boards.host.driver import Core, CoreError
from fabtune.golden.cores.adapters.registers import Command, Error
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.instantft.registers import CORE
from fabtune.golden.errors import UserError
from fabtune.golden.lora.adapters import Adapters, untuned_layer
from fabtune.golden.lora.job import Job
from fabtune.golden.lora.memory_layout import adapters_image
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram
from fabtune.sim.cores.adapters_job import TuningJob

from ....integer_jobs import counts_of, integers_of, rates_of, run_core, run_integers
from ....small_cores import OPTIONS, instantft

SAMPLES, BATCH, EPOCHS = 9, 4, 2
RATE = 20_000


@cache
def _program(**settings: Any) -> Any:
    spec = instantft(**settings)
    return compiled_core(spec), spec


@dataclass
class Case:
    """A job with its golden results."""

    spec: InstantftSpec
    job: TuningJob
    images: Any
    logits: Any
    counts: dict[str, int]
    golden: Job

    @property
    def values(self) -> Any:
        """Samples in Q8.16."""
        return self.spec.values_of(self.job.inputs)


def _case(
    spec: InstantftSpec,
    raw: bool = False,
    gain: float = 1.0,
    samples: int = SAMPLES,
    epochs: int = EPOCHS,
    learnt: int = 0,
    **ends: Any,
) -> Case:
    rng = np.random.default_rng(7)
    network, mapping = spec.described, spec.mapping
    frozen = random_parameters(network, rng, gain)
    flat = 1500 * rng.normal(0, 1, mapping.shape.parameters)
    start = Adapters(mapping.shape, np.rint(flat).astype(np.int64).clip(-32768, 32767))
    if spec.tunes != "adapters":
        start.b[:] = untuned_layer(mapping.shape).b
    shape = (samples, *network.input_shape)
    inputs = rng.integers(0, 256, shape) if spec.byte_inputs else rng.integers(-90_000, 90_000, shape)
    labels = rng.integers(0, network.classes, samples)
    learnt = learnt or samples
    orders = [rng.permutation(learnt) for _ in range(epochs)]
    batches = [[order[at : at + BATCH] for at in range(0, learnt, BATCH)] for order in orders]
    rate = rng.integers(1, 1 << 17, sum(map(len, batches))).tolist() if spec.rates else RATE
    job = TuningJob(frozen, start, inputs, labels, batches, rate, raw, **ends)
    golden = integers_of(job, spec)
    images, results = [], []
    for batch in run_integers(job, spec, golden):
        results.append(batch)
        images.append(adapters_image(mapping, golden.adapters))
    logits = np.concatenate([one.logits for one in results])
    return Case(spec, job, np.stack(images), logits, counts_of(spec, golden, results), golden)


def _simulated(
    program: Any, spec: InstantftSpec, dram: Dram | None = None, **more: Any
) -> tuple[SimulatedDevice, Core]:
    device = SimulatedDevice(program, dram, limit=3_000_000, **more)
    return device, Core(spec.registers, device, device, device.interrupt, spec.signature)


def _check(case: Case, device: SimulatedDevice, tuner: FineTuner) -> None:
    """A complete job, from initial adapters to the outputs of the tuned network."""
    tuner.load_adapters(case.job.adapters)
    tuned, traced = run_core(replace(case.job, logits=True), tuner, device)
    assert np.array_equal(traced, case.images)
    assert tuned.logits is not None
    assert np.array_equal(tuned.logits, case.logits)
    assert tuned.finished.counts == case.counts
    assert np.array_equal(tuner.adapters().flat, case.golden.adapters.flat)
    assert np.array_equal(tuner.logits(case.job.inputs), case.golden.logits(case.values))


def _tuned(case: Case, tuner: FineTuner, logits: bool = False) -> Tuned:
    return tuner.tune(case.job.inputs, case.job.labels, case.job.epochs, RATE, logits)


VARIATIONS: dict[str, tuple[dict[str, Any], bool, float]] = {
    "base": ({}, False, 1.0),
    "raw": ({}, True, 1.0),
    "saturating": ({}, False, 60.0),
    "vector": ({"network": "70 fc40 relu fc9 relu fc4", "byte_inputs": False}, True, 1.0),
    "vector, two ports": (
        {"network": "70 fc40 relu fc9 relu fc4", "byte_inputs": False, "ports": 2, "columns": 2, "rank": 2},
        False,
        1.0,
    ),
    "last": ({"last_only": True}, False, 1.0),
    "options": (OPTIONS, True, 1.0),
    "without a cache": ({"cache": "none"}, True, 1.0),
    "rates": ({"rates": True}, False, 1.0),
    "stochastic, two words at once": ({"stochastic": True, "rank": 2}, False, 1.0),
    "early stop": ({"early_stop": True}, False, 1.0),
    "layer, two words at once": ({"tunes": "layer", "rank": 2}, False, 1.0),
    "layer, saturating": ({"tunes": "layer", "lanes": 32, "columns": 8, "rank": 2}, True, 60.0),
    "biases": ({"tunes": "biases"}, False, 1.0),
    "last, without a cache, two ports": ({"last_only": True, "cache": "none", "ports": 2}, True, 1.0),
    "two words at once": ({"rank": 2}, False, 1.0),
    "wide": ({"lanes": 32, "columns": 8, "rank": 6, "batch": 7}, False, 1.0),
    "two ports": ({"ports": 2}, False, 1.0),
    "two ports, wide": ({"lanes": 32, "columns": 8, "ports": 2}, False, 1.0),
    "two ports, raw": ({"lanes": 32, "columns": 8, "ports": 2}, True, 1.0),
    "three ports": ({"lanes": 32, "columns": 16, "ports": 3}, False, 1.0),
    "three ports, saturating": ({"lanes": 32, "columns": 16, "ports": 3}, True, 60.0),
    "16 columns, options": (OPTIONS | {"columns": 16, "ports": 3}, True, 1.0),
    "on the chip": ({"cache": "chip"}, False, 1.0),
    "narrow": ({"columns": 2, "rank": 1}, False, 1.0),
    "image in words": ({"network": "2x5x4 conv2k2 relu flatten fc2", "byte_inputs": False}, False, 1.0),
}
LONG = (
    "options",  # the C driver's whole job has them, too
    *("two words at once", "wide", "narrow", "image in words", "last", "on the chip"),
    *("without a cache", "rates", "last, without a cache, two ports"),
    *("layer, two words at once", "layer, saturating", "biases", "stochastic, two words at once", "early stop"),
    *("vector", "vector, two ports", "two ports", "two ports, raw", "two ports, wide"),
    *("three ports", "three ports, saturating", "16 columns, options"),
)
"""Further variants of the core, each with a separate build."""


@pytest.mark.parametrize(
    "name", [name if name not in LONG else pytest.param(name, marks=pytest.mark.slow) for name in VARIATIONS]
)
def test_whole_job(name: str) -> None:
    settings, raw, gain = VARIATIONS[name]
    program, spec = _program(**settings)
    case = _case(spec, raw, gain)
    if name == "saturating":
        assert case.golden.saturations > 0
    device, core = _simulated(program, spec)
    tuner = FineTuner(core, spec, SAMPLES, raw)
    tuner.load(case.job.frozen)
    _check(case, device, tuner)


@pytest.fixture(scope="module")
def small() -> tuple[Any, Case]:
    program, spec = _program()
    return program, _case(spec)


def test_stalls_on_every_channel(small: tuple[Any, Case]) -> None:
    program, case = small
    device, core = _simulated(program, case.spec, Dram.stressed(0.4), seed=3)
    tuner = FineTuner(core, case.spec, SAMPLES)
    tuner.load(case.job.frozen)
    _check(case, device, tuner)


def test_second_job_straight_after_the_first(small: tuple[Any, Case]) -> None:
    program, case = small
    device, core = _simulated(program, case.spec)
    tuner = FineTuner(core, case.spec, SAMPLES)
    tuner.load(case.job.frozen)
    _check(case, device, tuner)
    # with existing records, and without
    tuner.load_adapters(case.job.adapters)
    assert _tuned(case, tuner).finished.counts["misses"] == 0
    assert np.array_equal(tuner.adapters().flat, case.golden.adapters.flat)
    tuner.forget()
    tuner.load_adapters(case.job.adapters)
    assert _tuned(case, tuner).finished.counts["misses"] == SAMPLES
    assert np.array_equal(tuner.adapters().flat, case.golden.adapters.flat)


def test_what_is_written_right_behind_a_job_is_ignored(
    small: tuple[Any, Case], write_behind: Callable[..., None]
) -> None:
    """The job runs with its own settings; early commands are dropped, not queued."""
    program, case = small
    device, core = _simulated(program, case.spec)
    tuner = FineTuner(core, case.spec, SAMPLES)
    tuner.load(case.job.frozen)
    write_behind(core, CORE, Command, Command.TUNE)
    _check(case, device, tuner)


@pytest.mark.slow
def test_an_inference_empties_the_cache_on_the_chip() -> None:
    program, spec = _program(cache="chip")
    case = _case(spec)
    device, core = _simulated(program, spec)
    with pytest.raises(UserError, match="cache=dram"):
        FineTuner(core, spec, SAMPLES, raw=True)
    tuner = FineTuner(core, spec, SAMPLES)
    tuner.load(case.job.frozen)
    _check(case, device, tuner)
    tuner.load_adapters(case.job.adapters)
    assert _tuned(case, tuner).finished.counts["misses"] == SAMPLES
    tuner.load_adapters(case.job.adapters)
    assert _tuned(case, tuner).finished.counts["misses"] == 0
    assert np.array_equal(tuner.adapters().flat, case.golden.adapters.flat)
    with pytest.raises(CoreError) as caught:
        core.run(Command.TUNE, mode=1)
    assert caught.value.code == Error.BAD_MODE


@pytest.mark.parametrize("after", [150, 900, 2500, 4100])
def test_reset_in_the_middle(small: tuple[Any, Case], after: int) -> None:
    program, case = small
    device, core = _simulated(program, case.spec)
    tuner = FineTuner(core, case.spec, SAMPLES)
    tuner.load(case.job.frozen)
    tuner.load_adapters(case.job.adapters)
    with pytest.raises(UserError):
        _interrupted(core, device, lambda: device.reset(after), tuner, case)
    tuner.load(case.job.frozen)
    tuner.load_adapters(case.job.adapters)
    assert _tuned(case, tuner).finished.counts["misses"] == SAMPLES
    assert np.array_equal(tuner.adapters().flat, case.golden.adapters.flat)


def _interrupted(core: Core, device: SimulatedDevice, what: Callable[[], None], tuner: FineTuner, case: Case) -> None:
    """Start a job, cause an event, and let the host give up waiting."""

    def happens() -> None:
        what()
        device.read(4)

    core._interrupt = happens
    polls, run = 1, core.run
    core.run = lambda command, **values: run(command, polls=polls, **values)  # type: ignore[method-assign,assignment]
    try:
        _tuned(case, tuner)
    finally:
        core.run = run  # type: ignore[method-assign]
        core._interrupt = device.interrupt


@pytest.mark.parametrize(
    ("kind", "where", "response"),
    [
        ("read", "samples", "slverr"),
        ("read", "order", "decerr"),
        ("read", "cache", "slverr"),
        ("write", "cache", "decerr"),
        ("write", "logits", "slverr"),
    ],
)
def test_bus_errors_are_reported(small: tuple[Any, Case], kind: str, where: str, response: str) -> None:
    program, case = small
    device, core = _simulated(program, case.spec)
    tuner = FineTuner(core, case.spec, SAMPLES)
    tuner.load(case.job.frozen)
    tuner.load_adapters(case.job.adapters)
    places = []
    faulty = core.run

    def run(command: Command, **values: int) -> Any:
        places.append(values[where])
        device.fault(kind, values[where], 64, response)
        return faulty(command, **values)

    core.run = run  # type: ignore[method-assign,assignment]
    with pytest.raises(CoreError) as caught:
        _tuned(case, tuner, logits=True)
    core.run = faulty  # type: ignore[method-assign]
    device.no_faults()
    assert caught.value.code == Error[f"{kind}_{response}".upper()]
    assert places[0] <= caught.value.address < places[0] + 4096
    # the core is usable afterwards
    _check(case, device, tuner)


@pytest.mark.parametrize(
    ("error", "settings"),
    [
        (Error.ZERO_LENGTH, {"epochs": 0}),
        (Error.ZERO_LENGTH, {"samples_per_epoch": 0}),
        (Error.ZERO_LENGTH, {"cache_entries": 0}),
        (Error.BAD_CACHE_ENTRIES, {"cache_entries": 65}),
        (Error.BAD_ADDRESS, {"samples": 4104}),
        (Error.BAD_ADDRESS, {"cache": 8193}),
        (Error.BAD_BATCH, {"batch": 0}),
        (Error.BAD_BATCH, {"batch": 5}),
        (Error.BAD_RATE, {"rate": 0}),
        (Error.BAD_RATE, {"rate": 1 << 17}),
        (Error.BAD_MODE, {"mode": 4}),
        (Error.BAD_INDEX, {"cache_entries": 3}),
    ],
)
def test_wrong_settings_are_refused(small: tuple[Any, Case], error: Error, settings: dict[str, int]) -> None:
    program, case = small
    device, core = _simulated(program, case.spec)
    tuner = FineTuner(core, case.spec, SAMPLES)
    tuner.load(case.job.frozen)
    right = core.run
    core.run = lambda command, **values: right(command, **(values | settings))  # type: ignore[method-assign,assignment]
    with pytest.raises(CoreError) as caught:
        _tuned(case, tuner)
    assert caught.value.code == error
    core.run = right  # type: ignore[method-assign]
    _check(case, device, tuner)


@pytest.mark.slow
def test_wrong_rates_are_refused(small: tuple[Any, Case]) -> None:
    program, spec = _program(**OPTIONS)
    case = _case(spec, raw=True)
    device, core = _simulated(program, spec)
    tuner = FineTuner(core, spec, SAMPLES, raw=True)
    tuner.load(case.job.frozen)
    inputs, labels, epochs, rates = case.job.inputs, case.job.labels, case.job.epochs, list(rates_of(case.job))
    for wrong in (0, 1 << 17, 0xFFFFFFFF):
        tuner.load_adapters(case.job.adapters)
        with pytest.raises(CoreError) as caught:
            tuner.tune(inputs, labels, epochs, [*rates[:3], wrong, *rates[4:]])
        assert (caught.value.code, caught.value.address) == (Error.BAD_RATE, wrong)
        assert core.read("batches") <= 3
    _check(case, device, tuner)
    # one rate for all batches, as on a core without per-batch rates
    constant = replace(case.job, rate=RATE)
    tuner.load_adapters(constant.adapters)
    golden = integers_of(constant, spec)
    for _ in run_integers(constant, spec, golden):
        pass
    tuner.tune(inputs, labels, epochs, RATE)
    assert np.array_equal(tuner.adapters().flat, golden.adapters.flat)
    with pytest.raises(UserError, match="5 rates for 6 batches"):
        tuner.tune(inputs, labels, epochs, rates[1:])
    program, case = small
    _, core = _simulated(program, case.spec)
    with pytest.raises(UserError, match="rates=true"):
        FineTuner(core, case.spec, SAMPLES).tune(inputs, labels, epochs, rates)


@pytest.mark.slow
def test_a_job_ends_early() -> None:
    program, spec = _program(**OPTIONS)
    losses, golden = [], _case(spec, raw=True, epochs=4)
    job = integers_of(golden.job, spec)
    results = list(run_integers(golden.job, spec, job))
    for stop_loss in (0, job.epoch_loss, 1 << 31):
        case = _case(spec, raw=True, epochs=4, stop_loss=stop_loss)
        losses.append(case.counts["batches"])
        device, core = _simulated(program, spec)
        tuner = FineTuner(core, spec, SAMPLES, raw=True)
        tuner.load(case.job.frozen)
        _check(case, device, tuner)
        # without the limit the job runs to its end
        _check(golden, device, tuner)
    assert losses[0] == len(results)
    assert losses[2] == len(results) // 4


def test_an_early_end_is_refused_where_the_core_has_none(small: tuple[Any, Case]) -> None:
    program, case = small
    _, core = _simulated(program, case.spec)
    with pytest.raises(UserError, match="early_stop=true"):
        FineTuner(core, case.spec, SAMPLES).tune(case.job.inputs, case.job.labels, case.job.epochs, RATE, stop_loss=1)


CHECKED = np.array([10, 8, 11, 9, 12])
"""Validation samples: one more than a batch."""


def _best(case: Case) -> tuple[int, list[int]]:
    """Epoch with the smallest golden validation loss so far, and its adapters."""
    job, losses, adapters = integers_of(case.job, case.spec), [], []
    batches = case.job.batches_of_epoch
    for number, _ in enumerate(run_integers(case.job, case.spec, job), start=1):
        if number % batches == 0:  # the epoch has not ended: its losses are still in the running validation
            losses.append(job._validation.loss)
            adapters.append(job.adapters.flat.tolist())
    best = int(np.argmin(losses))
    return best + 1, adapters[best]


# the C driver's complete job also validates
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "raw", "gain"),
    [(OPTIONS, True, 1.0), ({}, False, 1.0), ({"ports": 2, "columns": 8, "lanes": 32}, True, 60.0)],
)
def test_a_job_validates_each_epoch(options: dict[str, Any], raw: bool, gain: float) -> None:
    program, spec = _program(**options | {"early_stop": True, "validation": True})
    device, core = _simulated(program, spec, Dram.stressed(), seed=3)
    tuner = FineTuner(core, spec, SAMPLES + len(CHECKED), raw)
    ran = set()
    for ends in ({}, {"stop_loss": 1 << 31}, {"patience": 1}, {"patience": 3}):
        case = _case(
            spec, raw, gain, samples=len(CHECKED) + SAMPLES, epochs=6, learnt=SAMPLES, validation=CHECKED, **ends
        )
        tuner.load(case.job.frozen)
        tuner.forget()
        _check(case, device, tuner)
        assert case.counts["validation_loss"] > 0
        ran.add(case.counts["batches"])
        tuner.load_adapters(case.job.adapters)
        job = case.job
        more = (rates_of(job), job.stop_loss, CHECKED, job.patience)
        best, kept = tuner.tune_best(job.inputs, job.labels, job.epochs, *more)
        assert (best, kept.flat.tolist()) == _best(case)
        assert np.array_equal(tuner.adapters().flat, kept.flat)
    assert len(ran) > 1 or gain > 1
    # a job without validation after one with: registers are rewritten
    case = _case(spec, raw, gain, samples=len(CHECKED) + SAMPLES)
    tuner.forget()
    _check(case, device, tuner)
    assert case.counts["validation_loss"] == case.counts["correct"] == 0


def test_validation_and_patience_are_refused(small: tuple[Any, Case]) -> None:
    program, case = small
    _, core = _simulated(program, case.spec)
    tuner, job = FineTuner(core, case.spec, SAMPLES), case.job
    for ends in ({"validation": CHECKED - 8}, {"patience": 1}):
        with pytest.raises(UserError, match="validation=true"):
            tuner.tune(job.inputs, job.labels, job.epochs, RATE, **ends)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="this core knows no loss"):
        tuner.tune_best(job.inputs, job.labels, job.epochs, RATE)
    with pytest.raises(UserError, match="validation without early_stop"):
        InstantftSpec(validation=True)


def test_wrong_label_and_command_are_refused(small: tuple[Any, Case]) -> None:
    program, case = small
    device, core = _simulated(program, case.spec)
    tuner = FineTuner(core, case.spec, SAMPLES)
    tuner.load(case.job.frozen)
    with pytest.raises(CoreError) as caught:
        tuner.tune(case.job.inputs, case.job.labels + 3, case.job.epochs, RATE)
    assert caught.value.code == Error.BAD_LABEL
    assert caught.value.address >= 3
    for command in (0, 7, 99):
        core.write("command", command)
        device.interrupt()
        assert core.read("status") >> 8 == Error.BAD_COMMAND
        assert core.read("error_address") == command
    _check(case, device, tuner)


def test_other_core_is_refused(small: tuple[Any, Case]) -> None:
    program, case = small
    _, core = _simulated(program, case.spec)
    with pytest.raises(UserError, match="signature"):
        FineTuner(core, InstantftSpec(network="digits"), 9)
    with pytest.raises(UserError, match="generated for 1 to 64"):
        FineTuner(core, case.spec, 65)
    tuner = FineTuner(core, case.spec, SAMPLES)
    with pytest.raises(UserError, match="for a cache of 9"):
        tuner.tune(np.concatenate([case.job.inputs] * 2), case.job.labels, case.job.epochs, RATE)
    with pytest.raises(UserError, match="epochs differ"):
        tuner.tune(case.job.inputs, case.job.labels, [case.job.epochs[0], case.job.epochs[0][:1]], RATE)
