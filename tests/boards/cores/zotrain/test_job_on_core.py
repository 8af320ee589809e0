"""Zeroth-order jobs on the compiled core through the host driver, compared with the integer job; failure modes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fabtune.boards.cores.zotrain.job import ZerothOrderTrainer
from fabtune.boards.host.driver import Core, CoreError
from fabtune.golden.cores.zeroth_order.registers import Command, Error
from fabtune.golden.cores.zotrain.registers import CORE
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Integers
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.golden.settings import build as spec_of
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.sim.compiled.comparison import compare, compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram
from fabtune.sim.cores.zeroth_order_job import TrainingJob, same

from ....integer_jobs import integers_of, run_core, run_integers

NETWORK = "network=1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"
SMALL = (NETWORK, "lanes=16", "cut_rows=72")
SAMPLES, BATCH, STEPS = 7, 4, 6


def _job(spec: ZotrainSpec, position: int = 0, deltas: Integers | None = None, **settings: Any) -> TrainingJob:
    rng = np.random.default_rng(7)
    network = spec.described
    shape = (SAMPLES, *network.input_shape)
    inputs = rng.integers(0, 256, shape) if spec.byte_inputs else rng.integers(-90_000, 90_000, shape)
    labels = rng.integers(0, network.classes, SAMPLES)
    drawn = [rng.integers(0, SAMPLES, BATCH if number % 3 < 2 else BATCH - 1) for number in range(STEPS)]
    steps = [StepOrder(indices, labels[indices], 40_000 + 1000 * number) for number, indices in enumerate(drawn)]
    common = StepSettings(**({"shift": 24} | settings))
    job = TrainingJob(random_parameters(network, rng), inputs, steps, common, position)
    integers = integers_of(job, spec)
    if deltas is not None:
        integers.total = deltas
    return replace(job, deltas=integers.rows)


VARIATIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "base": (SMALL, {}),
    "two cycles for a word, in parts": ((*SMALL, "columns=8", "deltas=ultra"), {}),
    "a quarter of a word in a cycle": ((*SMALL, "deltas=ultra"), {}),
    "pool": ((*SMALL, "generator.strategy=pool", "generator.pool.p=33", "generator.pool.size=8415"), {"position": 100}),
    "14 bits, all in a cycle": ((*SMALL, "generator.scale.urng.bits=14"), {"position": 507_870}),
    "leap": ((*SMALL, "generator.scale.urng.leap=4", "generator.scale.mode=pow2"), {}),
    "constant factor": ((*SMALL, "generator.scale.mode=constant", "deltas=ultra"), {}),
    "vector": (("network=70 fc40 relu fc9 relu fc4", "byte_inputs=false", "lanes=16", "columns=2"), {}),
    "gaussian, cut": ((NETWORK, "lanes=16", "cut_rows=72", "gaussian=sum"), {"split": Split(2, 2, 2)}),
    "a quarter of a word in a cycle, cut": ((*SMALL, "deltas=ultra"), {"split": Split(2, 2, 3), "scalars": True}),
    "one layer": (("network=20 fc3", "byte_inputs=false", "lanes=16", "columns=8"), {}),
    "wide": ((NETWORK, "columns=8", "deltas=ultra"), {"eps_shift": 4, "shift": 28}),
    "gaussian, tree": (
        ("network=1x6x5 conv3k3p1 relu pool2 flatten fc3", "lanes=16", "columns=2", "gaussian=tree"),
        {"position": 4_000_000_000},
    ),
    "gaussian, sum, a quarter in a cycle": ((*SMALL, "gaussian=sum", "deltas=ultra"), {"eps_shift": 6}),
    "gaussian, select": (("network=20 fc9 relu fc3", "byte_inputs=false", "gaussian=select"), {}),
    "channels": (("network=3x7x6 conv5k3p1 relu pool2 conv6k2 relu flatten fc9 relu fc4", "lanes=16"), {}),
}
LONG = (
    *("a quarter of a word in a cycle", "pool", "14 bits, all in a cycle", "leap", "constant factor"),
    *("vector", "one layer", "wide", "channels", "gaussian, tree", "gaussian, select"),
    "gaussian, sum, a quarter in a cycle",
    *("gaussian, cut", "a quarter of a word in a cycle, cut", "two cycles for a word, in parts"),
)
"""Further variants of the core, each with a separate build."""


@pytest.mark.parametrize(
    "name", [name if name not in LONG else pytest.param(name, marks=pytest.mark.slow) for name in VARIATIONS]
)
def test_whole_job(name: str) -> None:
    settings, more = VARIATIONS[name]
    spec = spec_of(ZotrainSpec, settings)
    job = _job(spec, **more)
    played, comparison = compare(spec, job, job.inputs)
    slopes = played.ran.slopes
    assert (comparison.mismatches, comparison.compared, comparison.logits_compared) == (0, STEPS, SAMPLES)
    assert len({slope.coefficient for slope in slopes}) == len(slopes) == STEPS * job.settings.split.slopes


@cache
def _program() -> tuple[Any, ZotrainSpec]:
    spec = spec_of(ZotrainSpec, SMALL)
    return compiled_core(spec), spec


@pytest.fixture
def simulated() -> tuple[SimulatedDevice, ZerothOrderTrainer]:
    return _simulated()


def _simulated(dram: Dram | None = None, seed: int = 0) -> tuple[SimulatedDevice, ZerothOrderTrainer]:
    program, spec = _program()
    device = SimulatedDevice(program, dram, seed, limit=3_000_000)
    return device, ZerothOrderTrainer(Core(CORE, device, device, device.interrupt), spec)


def _check(trainer: ZerothOrderTrainer, device: SimulatedDevice, job: TrainingJob) -> None:
    """A complete job from its deltas, everything compared with the golden job."""
    trainer.load_deltas(integers_of(job, trainer.spec).rows)
    trained, traced = run_core(job, trainer, device)
    golden = integers_of(job, trainer.spec)
    steps = zip(run_integers(job, trainer.spec, golden), job.settings.split.steps(trained.slopes), strict=True)
    for number, (step, own) in enumerate(steps):
        assert all(same(*pair) for pair in zip(step, own, strict=True))
        assert np.array_equal(traced[number], trainer.layout.deltas(golden.rows).image)
    assert trained.finished.counts["saturations"] == golden.saturations
    assert np.array_equal(trainer.deltas(), golden.rows)


def _train(trainer: ZerothOrderTrainer, job: TrainingJob) -> None:
    trainer.train(job.inputs, job.steps, job.settings, job.position)


def test_all_that_is_clipped_is_counted() -> None:
    _, spec = _program()
    large = np.zeros(spec.generator.base.shape, int)
    large.reshape(-1)[::11] = (1 << 31) - (1 << 14)
    job = _job(spec, shift=8, deltas=large)
    golden = integers_of(job, spec)
    list(run_integers(job, spec, golden))
    assert golden.saturations > 300
    assert golden.coefficients_clipped > 0
    assert compare(spec, job, job.inputs, Dram.stressed(0.4), seed=3)[1].mismatches == 0


def test_second_job_after_the_first(simulated: tuple[SimulatedDevice, ZerothOrderTrainer]) -> None:
    device, trainer = simulated
    job = _job(trainer.spec)
    trainer.load(job.network)
    _check(trainer, device, job)
    _check(trainer, device, job)
    # loading a network clears all deltas
    trainer.load(job.network)
    assert not trainer.deltas().any()


def test_a_saved_state_goes_on_elsewhere(simulated: tuple[SimulatedDevice, ZerothOrderTrainer]) -> None:
    _, trainer = simulated
    job = _job(trainer.spec)
    trainer.load(job.network)
    first = trainer.train(job.inputs, job.steps[:2], job.settings, job.position)
    saved = trainer.deltas()
    _, other = _simulated(Dram.stressed(0.2), seed=5)
    other.load(job.network)
    other.load_deltas(saved)
    rest = other.train(job.inputs, job.steps[2:], job.settings, first.position)
    golden = integers_of(job, trainer.spec)
    expected = [slope for step in run_integers(job, trainer.spec, golden) for slope in step]
    assert all(same(one, two) for one, two in zip(first.slopes + rest.slopes, expected, strict=True))
    assert np.array_equal(other.deltas(), golden.rows)


SPLITS = {
    "three perturbations": (Split(first=3), False),
    "cut behind the first stage": (Split(1, 2, 3), False),
    "cut behind the convolutions": (Split(2, 2, 3), False),
    "cut before the last stage": (Split(3, 1, 4), False),
    "one of each part": (Split(2), False),
    "scalars of a message": (Split(2, 2, 3), True),
    "scalars without a cut": (Split(first=5), True),
}


@pytest.mark.parametrize("name", SPLITS)
def test_perturbations_of_two_parts(simulated: tuple[SimulatedDevice, ZerothOrderTrainer], name: str) -> None:
    device, trainer = simulated
    split, scalars = SPLITS[name]
    rng, shape = np.random.default_rng(1), (2, *trainer.spec.generator.base.shape)
    deltas = rng.integers(-(1 << 20), 1 << 20, shape)
    more = {"deltas": deltas if split.cut else deltas[0], "split": split, "scalars": scalars}
    trainer.load(_job(trainer.spec).network)
    _check(trainer, device, _job(trainer.spec, position=7777, **more))
    # once without stalls, once with stalls on every channel
    _check(trainer, device, _job(trainer.spec))
    device, other = _simulated(Dram.stressed(0.4), seed=2)
    other.load(_job(trainer.spec).network)
    _check(other, device, _job(trainer.spec, **more))


def test_a_state_goes_on_with_another_cut(simulated: tuple[SimulatedDevice, ZerothOrderTrainer]) -> None:
    """Delta rows are the same for all cuts."""
    device, trainer = simulated
    first, second = (_job(trainer.spec, split=split) for split in (Split(1, 2, 2), Split(3, 1, 3)))
    trainer.load(first.network)
    run_core(first, trainer, device)
    before = integers_of(first, trainer.spec)
    list(run_integers(first, trainer.spec, before))
    assert np.array_equal(trainer.deltas(), before.rows)
    _train(trainer, second)
    other = integers_of(second, trainer.spec)
    other.rows = before.rows
    list(run_integers(second, trainer.spec, other))
    found = trainer.deltas()
    for own in other.parts:
        spread = own.deltas.perturbation.spread(own.deltas.total, own.part.words)
        # this small network uses few of the folded sums
        assert np.array_equal(found[own.part.rows], spread)


@pytest.mark.parametrize("coefficient", [(1 << 26) - 1, 127 << 19, 255 << 10, (255 << 10) - 1, 128, 127, -(1 << 26)])
def test_sums_and_scalars_are_clipped_as_golden_clips_them(
    simulated: tuple[SimulatedDevice, ZerothOrderTrainer], coefficient: int
) -> None:
    """Rate and shift put coefficients near the limits of a scalar."""
    _, spec = _program()
    job = _job(spec, shift=max(0, 26 - abs(coefficient).bit_length()), split=Split(2, 1, 4), scalars=True)
    device, trainer = simulated
    trainer.load(job.network)
    trained, _ = run_core(job, trainer, device)
    golden = integers_of(job, spec)
    list(run_integers(job, spec, golden))
    assert trained.finished.counts["coefficients_clipped"] == golden.coefficients_clipped
    assert np.array_equal(trainer.deltas(), golden.rows)


@pytest.mark.parametrize(
    ("after", "split"),
    [
        *((after, Split()) for after in (60, 700, 1500, 3300, 6000)),
        *((after, Split(2, 2, 3)) for after in (1500, 3300, 4200, 6000)),
    ],
)
def test_reset_in_the_middle(simulated: tuple[SimulatedDevice, ZerothOrderTrainer], after: int, split: Split) -> None:
    device, trainer = simulated
    job = _job(trainer.spec, split=split)
    trainer.load(job.network)
    _interrupt(trainer, device, lambda: device.reset(after))
    with pytest.raises(UserError):
        _train(trainer, job)
    trainer.core._interrupt = device.interrupt
    trainer.load(job.network)
    _check(trainer, device, job)


def _interrupt(trainer: ZerothOrderTrainer, device: SimulatedDevice, what: Callable[[], None]) -> None:
    """Cause an event in the next command, and let the host give up waiting."""
    core, run = trainer.core, trainer.core.run

    def happens() -> None:
        what()
        device.read(4)

    def once(command: Command, **values: int) -> Any:
        core.run = run  # type: ignore[method-assign]
        core._interrupt = happens
        return run(command, polls=1, **values)

    core.run = once  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize(
    ("kind", "where", "response"),
    [
        ("read", "samples", "slverr"),
        ("read", "order", "decerr"),
        ("read", "state", "slverr"),
        ("write", "records", "decerr"),
    ],
)
def test_bus_errors_name_their_address(
    simulated: tuple[SimulatedDevice, ZerothOrderTrainer], kind: str, where: str, response: str
) -> None:
    device, trainer = simulated
    job = _job(trainer.spec)
    trainer.load(job.network)
    right, places = trainer.core.run, []

    def run(command: Command, **values: int) -> Any:
        places.append(values[where])
        device.fault(kind, values[where], 64, response)
        return right(command, **values)

    trainer.core.run = run  # type: ignore[method-assign,assignment]
    with pytest.raises(CoreError) as caught:
        _train(trainer, job)
    trainer.core.run = right  # type: ignore[method-assign]
    device.no_faults()
    assert caught.value.code == Error[f"{kind}_{response}".upper()]
    assert places[0] <= caught.value.address < places[0] + 4096
    _check(trainer, device, job)


@pytest.mark.parametrize(
    ("error", "settings", "value"),
    [
        (Error.ZERO_LENGTH, {"steps": 0}, 0),
        (Error.ZERO_LENGTH, {"sample_count": 0}, 0),
        (Error.BAD_ADDRESS, {"samples": 4104}, 4104),
        (Error.BAD_ADDRESS, {"state": 8193}, 8193),
        (Error.BAD_ADDRESS, {"records": 4098}, 4098),
        (Error.BAD_BATCH, {"batch": 0}, 0),
        (Error.BAD_BATCH, {"batch": 257}, 257),
        (Error.BAD_POSITION, {"position": 7905}, 7905),
        (Error.BAD_EPS, {"eps_shift": 3}, 3),
        (Error.BAD_EPS, {"eps_shift": 13}, 13),
        (Error.BAD_SHIFT, {"shift": 63}, 63),
        (Error.BAD_CUT, {"cut": 4}, 4),
        (Error.BAD_CUT, {"cut": 1 << 31}, 1 << 31),
        (Error.BAD_BATCH, {"cut": 1, "batch": 5}, 5),
        (Error.BAD_SPLIT, {"p1": 0}, 0),
        (Error.BAD_SPLIT, {"p1": 17}, 17),
        (Error.BAD_SPLIT, {"cut": 1, "p2": 0}, 0),
        (Error.BAD_SPLIT, {"p2": 2}, 2),
        (Error.BAD_SPLIT, {"cut": 1, "p1": 13, "p2": 5}, 5),
        (Error.BAD_SPLIT, {"gap": 64}, 64),
        (Error.BAD_SPLIT, {"scalars": 2}, 2),
        (Error.BAD_INDEX, {"sample_count": 1}, None),
        (Error.BAD_STEP, {"batch": 2}, None),
    ],
)
def test_wrong_settings_are_refused(
    simulated: tuple[SimulatedDevice, ZerothOrderTrainer], error: Error, settings: dict[str, int], value: int | None
) -> None:
    device, trainer = simulated
    job = _job(trainer.spec)
    trainer.load(job.network)
    right = trainer.core.run
    trainer.core.run = lambda command, **values: right(command, **(values | settings))  # type: ignore[method-assign,assignment]
    with pytest.raises(CoreError) as caught:
        _train(trainer, job)
    trainer.core.run = right  # type: ignore[method-assign]
    assert caught.value.code == error
    if value is not None:
        assert caught.value.address == value
    _check(trainer, device, job)


def test_wrong_words_of_the_order_list_are_refused(simulated: tuple[SimulatedDevice, ZerothOrderTrainer]) -> None:
    device, trainer = simulated
    job = _job(trainer.spec)
    trainer.load(job.network)
    right, order = trainer.core.run, trainer.layout.order(job.steps, BATCH).image
    places = []

    def run(command: Command, **values: int) -> Any:
        places.append(values["order"])
        device.put(values["order"], wrong)
        return right(command, **values)

    for byte, value, error in ((3, 1, Error.BAD_STEP), (2, 9, Error.BAD_STEP), (7, 3, Error.BAD_LABEL)):
        wrong = order.copy()
        wrong[byte] = value
        trainer.core.run = run  # type: ignore[method-assign,assignment]
        with pytest.raises(CoreError) as caught:
            _train(trainer, job)
        trainer.core.run = right  # type: ignore[method-assign]
        assert caught.value.code == error
        assert caught.value.address == int(wrong.view("<u4")[byte // 4])
    _check(trainer, device, job)


def test_what_is_written_right_behind_a_job_is_ignored(
    simulated: tuple[SimulatedDevice, ZerothOrderTrainer], write_behind: Callable[..., None]
) -> None:
    """The job runs with its own settings; early commands are dropped, not queued."""
    device, trainer = simulated
    job = _job(trainer.spec)
    trainer.load(job.network)
    write_behind(trainer.core, CORE, Command, Command.TRAIN)
    _check(trainer, device, job)


def test_unknown_commands_are_refused(simulated: tuple[SimulatedDevice, ZerothOrderTrainer]) -> None:
    device, trainer = simulated
    for command in (0, 6, 99):
        trainer.core.write("command", command)
        device.interrupt()
        assert trainer.core.read("status") >> 8 == Error.BAD_COMMAND
        assert trainer.core.read("error_address") == command


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (("generator.strategy=pool",), "8 numbers a cycle.*pool.p=33"),
        (("generator.replay=false",), "replay"),
        (("gaussian=box",), "not one of none, tree, select, sum"),
        (("gaussian=tree", "generator.scale.urng.bits=14"), "gaussian = tree takes the place of generator"),
        (("deltas=dram",), "not one of block, ultra"),
        (("lanes=8",), "lanes = 8"),
        (("cut_rows=-1",), "cut_rows = -1 is not in 0 to 65536"),
        (("network=20 fc3", "cut_rows=64"), "has one stage and is not cut"),
        (("network=784 fc1024 relu fc1024 relu fc10",), "more than a megabyte"),
    ],
)
def test_parameters_that_make_no_core_are_refused(settings: tuple[str, ...], refusal: str) -> None:
    with pytest.raises(UserError, match=refusal):
        spec_of(ZotrainSpec, settings)
