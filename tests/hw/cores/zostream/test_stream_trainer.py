# amaranth: UnusedElaboratable=no
"""The trainer of zostream around an engine of golden's functions: records, deltas, logits, counters, refusals."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.cores.zostream.pass_memory import passes_of
from fabtune.golden.cores.zostream.registers import Command, Error
from fabtune.golden.fixed import Narrower
from fabtune.golden.stream.forward_cache import CachedModel
from fabtune.golden.stream.transformer_model import padded
from fabtune.golden.zo.deltas import DELTA, PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.hw.cores.zeroth_order.sequencer import ZerothOrderSequencer
from fabtune.hw.cores.zostream.stream_passes import StreamPasses

from ...play import play_interface
from .golden_engine import GoldenEngine
from .stream_board import BATCH, GENERATOR, POSITION, SPEC, Board, command


def played(board, body, stall=0.0, limit=40_000):
    """Play a body with the board around the trainer; returns the engine."""
    dut = ZerothOrderSequencer(SPEC, StreamPasses(SPEC))
    engine = GoldenEngine(dut.engine, board.images, SPEC, np.random.default_rng(5), stall)
    outside = board.outside
    background = [outside.reader(0, dut.reader0), outside.writer(0, dut.writer0), *engine.background]
    play_interface(dut, body=body, background=background, limit=limit)
    return engine


def expected_passes(board, steps, amounts):
    """Lengths and amount of each pass."""
    found = []
    for step in steps:
        lengths = [len(board.tokens[one]) for one in step.indices]
        own = passes_of(lengths, board.images.program.capacity)
        found += [(tuple(lengths[one.start : one.stop]), amount) for amount in amounts for one in own]
    return found


def test_a_step_and_the_logits_behind_it():
    board, rng = Board(), np.random.default_rng(3)
    (rate,), settings = StepSettings(eps_shift=8).with_rates([0.02], [BATCH], PerturbationTable(GENERATOR))
    job = ZerothOrderJob(board.model, GENERATOR, settings, POSITION)
    (step,) = steps = board.steps(rng, [rate])
    slopes = job.step(board.inputs(step), step.labels, rate)
    board.place(board.layout.state(POSITION))
    board.place(board.layout.records(1, BATCH))
    board.place(board.layout.logits(len(step.indices)))
    board.settings |= SPEC.step_registers(settings, board.images) | {"position": POSITION}
    found = []

    async def body(bench):
        for code in (Command.LOAD, Command.TRAIN, Command.INFER):
            found.append(await command(bench, code, board.settings))

    engine = played(board, body)
    assert [fault for _, fault in found] == [None] * 3
    assert np.array_equal(board.image("records"), board.layout.records_image(slopes, BATCH))
    assert np.array_equal(board.image("logits"), board.layout.logits_image(job.logits(board.inputs(step))))
    assert engine.passes == [one for amount in (job.eps, 0) for one in expected_passes(board, steps, [amount])]
    assert len(engine.passes) > 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "scalars", "wide", "stall"),
    [(Split(), False, 40, 0.0), (Split(first=3), True, 40, 0.3), (Split(first=2), False, 16, 0.0)],
    ids=["one", "three", "two without a gap"],
)
def test_a_job_is_that_of_golden(split, scalars, wide, stall):
    board, rng = Board(stall, wide), np.random.default_rng(3)
    settings = StepSettings(eps_shift=8, split=split, scalars=scalars)
    rates, settings = settings.with_rates([0.02, 0.01, 0.04], [BATCH] * 3, PerturbationTable(GENERATOR))
    before = rng.integers(-(1 << 22), 1 << 22, (len(board.layout.rows), GENERATOR.width))
    before[2, :2] = DELTA.maximum, DELTA.minimum
    job = ZerothOrderJob(board.model, GENERATOR, settings, POSITION)
    job.rows = before
    steps = board.steps(rng, rates)
    slopes = [slope for step in steps for slope in job.step(board.inputs(step), step.labels, step.rate)]
    board.place(board.layout.state(POSITION))
    board.place(board.layout.deltas(before))
    board.place(board.layout.records(len(slopes), BATCH))
    board.settings |= SPEC.step_registers(settings, board.images) | {"position": POSITION}
    assert (board.settings["gap"] > 0) == (wide == 40)
    found = {}

    async def body(bench):
        for code in (Command.LOAD, Command.LOAD_DELTAS, Command.TRAIN, Command.SAVE_DELTAS):
            found[code] = await command(bench, code, board.settings)

    engine = played(board, body, stall)
    assert [fault for _, fault in found.values()] == [None] * 4
    assert np.array_equal(board.image("records"), board.layout.records_image(slopes, BATCH))
    assert np.array_equal(board.layout.deltas_of(board.image("deltas")), job.rows)
    assert not np.array_equal(job.rows, before)
    counts, _ = found[Command.TRAIN]
    assert counts["steps_done"] == len(steps)
    assert counts["saturations"] + counts["offsets_clipped"] == job.saturations
    assert counts["offsets_clipped"] > 0
    assert counts["coefficients_clipped"] == job.coefficients_clipped
    assert engine.passes == expected_passes(board, steps, [job.eps] * split.first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "wide", "stall"),
    [(Split(3, 1, 1), 40, 0.0), (Split(2, 2, 3), 40, 0.3), (Split(3, 3, 2), 16, 0.0)],
    ids=["one of each", "tokens pass", "means pass"],
)
def test_a_job_with_a_cut_is_that_of_golden(split, wide, stall):
    board, rng = Board(stall, wide, cut=split.cut), np.random.default_rng(4)
    settings = StepSettings(eps_shift=8, split=split)
    rates, settings = settings.with_rates([0.02, 0.04], [BATCH] * 2, PerturbationTable(GENERATOR))
    before = rng.integers(-(1 << 22), 1 << 22, (len(board.layout.rows), GENERATOR.width))
    before[2, :2] = DELTA.maximum, DELTA.minimum
    job = ZerothOrderJob(board.model, GENERATOR, settings, POSITION)
    job.rows = before
    steps = board.steps(rng, rates)
    slopes = [slope for step in steps for slope in job.step(board.inputs(step), step.labels, step.rate)]
    board.place(board.layout.state(POSITION))
    board.place(board.layout.deltas(before))
    board.place(board.layout.records(len(slopes), BATCH))
    board.place(board.layout.logits(len(steps[0].indices)))
    board.settings |= SPEC.step_registers(settings, board.images) | {"position": POSITION}
    found = {}

    async def body(bench):
        for code in (Command.LOAD, Command.LOAD_DELTAS, Command.TRAIN, Command.SAVE_DELTAS):
            found[code] = await command(bench, code, board.settings)
        found[Command.INFER] = await command(bench, Command.INFER, board.settings | {"steps": 1})

    engine = played(board, body, stall, 150_000)
    assert [fault for _, fault in found.values()] == [None] * 5
    assert np.array_equal(board.image("records"), board.layout.records_image(slopes, BATCH))
    assert np.array_equal(board.layout.deltas_of(board.image("deltas")), job.rows)
    assert np.array_equal(board.image("logits"), board.layout.logits_image(job.logits(board.inputs(steps[0]))))
    counts, _ = found[Command.TRAIN]
    assert counts["steps_done"] == len(steps)
    assert counts["saturations"] + counts["offsets_clipped"] == job.saturations
    assert counts["offsets_clipped"] > 0
    expected = []
    for step in steps:
        own = expected_passes(board, [step], [job.eps])
        alone = [((1,) * len(step.indices), job.eps)]
        expected += split.first * [*own, *(split.second * (alone if split.cut == 3 else own))]
    assert engine.passes[: len(expected)] == expected


@pytest.mark.slow
@pytest.mark.parametrize(("cut", "stall"), [(2, 0.0), (3, 0.3)])
def test_what_passes_a_cut_is_kept_and_read(cut, stall):
    board, rng = Board(stall, cut=cut, first=cut), np.random.default_rng(3)
    rates, settings = StepSettings(eps_shift=8).with_rates([0.02, 0.04], [BATCH] * 2, PerturbationTable(GENERATOR))
    job = ZerothOrderJob(CachedModel(board.model, cut), GENERATOR, settings, POSITION)
    steps = board.steps(rng, rates)
    slopes = [slope for step in steps for slope in job.step(board.inputs(step), step.labels, step.rate)]
    board.place(board.layout.state(POSITION))
    board.place(board.layout.records(len(slopes), BATCH))
    board.settings |= SPEC.step_registers(settings, board.images) | {"position": POSITION}
    found, order = {}, board.settings["order"]
    everyone = StepOrder(np.arange(len(board.tokens)), board.labels, 0)
    board.place(board.layout.order([everyone], len(board.tokens)))
    keeps = {"order": board.settings["order"], "steps": 1, "batch": len(board.tokens)}
    board.settings["order"] = order

    async def body(bench):
        found[Command.LOAD] = await command(bench, Command.LOAD, board.settings)
        found[Command.CACHE] = await command(bench, Command.CACHE, board.settings | keeps)
        found[Command.TRAIN] = await command(bench, Command.TRAIN, board.settings)

    engine = played(board, body, stall, 100_000)
    assert [fault for _, fault in found.values()] == [None] * 3
    below = replace(board.model, last=cut)
    passed = below.run(padded(board.tokens), board.model.frozen, Narrower())
    rows = [one[None] if one.ndim == 1 else one[: len(own)] for one, own in zip(passed, board.tokens, strict=True)]
    assert np.array_equal(board.image("cache"), board.layout.kept_image([np.asarray(one) for one in rows]))
    assert np.array_equal(board.image("records"), board.layout.records_image(slopes, BATCH))
    counts, _ = found[Command.TRAIN]
    assert counts["steps_done"] == len(steps)
    assert {amount for _, amount in engine.passes} == {0, job.eps}


@pytest.mark.parametrize(
    ("code", "changed", "fault"),
    [
        pytest.param(Command.CACHE, {}, (Error["PROGRAM_CUT"], 0), marks=pytest.mark.slow),
        pytest.param(Command.INFER, {"cached": 1}, (Error["PROGRAM_CUT"], 0), marks=pytest.mark.slow),
        (Command.TRAIN, {"p2": 2}, (Error.BAD_SPLIT, 2)),
    ],
)
def test_commands_that_need_a_cut_are_faults_without_one(code, changed, fault):
    board, found = Board(), []
    board.place(board.layout.state(POSITION))

    async def body(bench):
        await command(bench, Command.LOAD, board.settings)
        found.append(await command(bench, code, board.settings | {"steps": 1, "p2": 1} | changed))

    played(board, body)
    assert found[0][1] == fault


def test_wrong_weights_and_a_missing_program_are_faults():
    board, found = Board(), []
    board.place(board.layout.deltas())

    async def body(bench):
        bench.set({"engine.failed": 1, "engine.number": 77})
        await bench.tick()
        found.append(tuple(bench.get(f"control.fault.{name}") for name in ("failed", "error", "address")))
        bench.set({"engine.failed": 0})
        await bench.tick()
        assert not bench.get("control.fault.failed")
        found.append(await command(bench, Command.SAVE_DELTAS, board.settings))
        await bench.tick(5)
        assert not bench.get("control.ready")

    played(board, body)
    wrong, (_, missing) = found
    assert wrong == (1, Error.BAD_WEIGHTS, 77)
    assert missing == (Error["PROGRAM_NO_PROGRAM"], 0)
