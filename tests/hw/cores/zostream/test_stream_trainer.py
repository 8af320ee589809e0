# amaranth: UnusedElaboratable=no
"""The trainer of zostream around an engine of golden's functions: records, deltas, logits, counters, refusals."""

from functools import cache

import numpy as np
import pytest

from fabtune.golden.cores.zostream.pass_memory import passes_of
from fabtune.golden.cores.zostream.registers import Command, Error
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.fixed import Q8_16
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.machine.images import StreamImages
from fabtune.golden.stream.transformer_model import TransformerModel, padded
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.zo.deltas import DELTA, PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.hw.cores.zostream.stream_trainer import StreamTrainer

from ...outside import Outside
from ...play import play_interface
from .golden_engine import GoldenEngine

GENERATOR = build(PezoSpec, ["scale.urng.bits=4", "scale.urng.n=5"])
SETTINGS = {"generator": GENERATOR, "sums": 32, "rows": 512, "wide_rows": 512}
SPEC = ZostreamSpec(**ZostreamSpec.presets["tiny"] | SETTINGS)
POSITION, BATCH, VOCABULARY = 9, 6, 30
SAMPLES, ORDER, BASE = 10, 3, 0x1_0000


@cache
def network(wide):
    """Layer, pool and head on the core, and samples of one to nine tokens with their labels."""
    made, rng = TransformerBuilder("own", 12), np.random.default_rng(0)
    up = made.linear("up", INPUTS, rng.normal(0, 0.3, (wide, 12)), rng.normal(0, 0.1, wide))
    pooled = made.pool("mean", made.activation("relu", up, "relu"), "mean")
    made.linear("head", pooled, rng.normal(0, 0.5, (6, wide)), np.zeros(6))
    base = frozen_base(*made.finish())
    embeddings = Q8_16.from_float(rng.normal(0, 1, (VOCABULARY, 12)))
    model = TransformerModel(
        base.transformer, base.integers, embeddings, times=SPEC.times, lanes=SPEC.lanes, columns=SPEC.columns
    )
    tokens = [rng.integers(0, VOCABULARY, length) for length in (4, 1, 9, 3, 2, 7, 1, 5, 6, 8)]
    return StreamImages.of(model, base, SPEC.size), tokens, rng.integers(0, 6, len(tokens))


class Board:
    """Memory outside, with the images of a job, and the trainer's settings.

    Attributes
    ----------
    settings : dict of str to int
    """

    def __init__(self, stall=0.0, wide=40):
        self.images, self.tokens, self.labels = network(wide)
        self.outside, self.settings, self.next = Outside(stall), {}, BASE
        self.layout = SPEC.layout(self.images.program)
        self.model, self.sizes = self.images.model, {}
        for region in (
            *self.layout.network(self.images),
            *self.layout.samples([self.model.embeddings[one] for one in self.tokens]),
        ):
            self.place(region)
        self.settings |= {
            "program_beats": self.images.program.image().size // 16,
            "sample_count": len(self.tokens),
            "batch": BATCH,
        }

    def place(self, region):
        """Put a region into memory, and its address into the settings."""
        self.settings[region.register], self.sizes[region.register] = self.next, region.size
        if region.image is not None:
            self.outside.load(self.next, region.image)
        self.next += -(-region.size // 4096) * 4096

    def steps(self, rng, rates):
        """Order of steps of the given rates; the deltas, state and records."""
        steps = []
        for rate in rates:
            indices = rng.integers(0, len(self.tokens), rng.integers(1, BATCH + 1))
            steps.append(StepOrder(indices, self.labels[indices], rate))
        self.place(self.layout.order(steps, BATCH))
        self.settings["steps"] = len(steps)
        return steps

    def image(self, name):
        return self.outside.image(self.settings[name], self.sizes[name])

    def inputs(self, step):
        return padded([self.tokens[one] for one in step.indices])


async def command(bench, code, settings):
    """Run a command to its end; return its counters, and its fault or None."""
    names = [item.name for item in SPEC.registers.counters]
    counts = dict.fromkeys(names, 0)
    bench.set({f"control.settings.{name}": value for name, value in settings.items()})
    bench.set({"control.command": int(code)})
    await bench.tick(3)
    assert bench.get("control.ready")
    bench.set({"control.start": 1})
    while True:
        await bench.tick()
        bench.set({"control.start": 0})
        for name in names:
            counts[name] += bench.get(f"control.counts.{name}")
        if bench.get("control.fault.failed"):
            return counts, (Error(bench.get("control.fault.error")), bench.get("control.fault.address"))
        if bench.get("control.finished"):
            return counts, None


def played(board, body, stall=0.0, limit=40_000):
    """Play a body with the board around the trainer; return the engine."""
    dut = StreamTrainer(SPEC)
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
