"""Example of `zostream`: a vision transformer for digits, zeroth-order steps, all weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ....golden.axi.regions import Region
from ....golden.cores.zostream.memory_layout import counters_of
from ....golden.cores.zostream.registers import Command
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.errors import UserError
from ....golden.fixed import Integers
from ....golden.train.zo.schedule import Schedule
from ....golden.zo.deltas import PerturbationTable
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...example.digits import DRIFT, TESTED, TUNED
from ...example.job import Example, ExampleData
from ...example.task import correct
from ...selftest.job import SelfTest
from .digits_transformer import DigitsTransformer

STEPS, BATCH, RATE = 60, 20, 3e-5
"""As few steps as golden computes in some seconds; with more the accuracy goes on rising."""
INFERRED = 100
"""Samples of a step of an inference."""
PROGRAM = Path(__file__).with_name("example.c")
"""The core's commands in C."""


def example(spec: ZostreamSpec) -> Example | None:
    """Make the example of a core; None where it has no room for the network.

    Longer than most: its commands go on from one job.
    """
    network = DigitsTransformer(spec)
    try:
        network.images()
    except UserError:
        return None
    from ....golden.datasets.tasks import task_of  # scikit-learn takes a second to import

    task = task_of("digits", drift=DRIFT)
    tune, test = task.tune[:TUNED], task.test[:TESTED]
    network.learn(task.pretrain)
    images = network.images()
    layout = spec.layout(images.program)
    drawn = [*Schedule(STEPS, BATCH, seed=0).indices(len(tune))]
    rates, common = StepSettings().with_rates(
        [RATE] * STEPS, [len(one) for one in drawn], PerturbationTable(spec.generator)
    )
    steps = [StepOrder(one, tune.labels[one], rate) for one, rate in zip(drawn, rates, strict=True)]
    golden = ZerothOrderJob(images.model, spec.generator, common)
    x, xt = network.rows(tune), network.rows(test)
    parts = np.split(np.arange(len(test)), range(INFERRED, len(test), INFERRED))
    tested = [StepOrder(one, test.labels[one], 0) for one in parts]

    job = SelfTest(spec)
    program, weights = layout.network(images)
    at = {
        "program": job.place(program),
        "weights": job.place(weights),
        **_samples(job, layout.samples([*x]), "tune"),
        "tune_order": job.place(layout.order(steps, BATCH), "tune_order"),
        "state": job.place(layout.state(golden.position)),
        **_samples(job, layout.samples([*xt]), "test"),
        "test_order": job.place(layout.order(tested, INFERRED), "test_order"),
        "labels": job.place(Region.containing("labels", test.labels.astype(np.uint8))),
        "records": job.place(layout.records(STEPS, BATCH)),
        "logits": job.place(layout.logits(len(test))),
        "tuned": job.place(layout.deltas(), "tuned"),
    }
    infer = {"weights": at["weights"], "samples": at["test_samples"], "index": at["test_index"]}
    infer |= {"order": at["test_order"], "logits": at["logits"], "cached": 0}
    infer |= {"sample_count": len(test), "steps": len(tested), "batch": INFERRED}

    def inferred(name: str) -> int:
        logits: Integers = np.concatenate([golden.logits(xt[one]) for one in parts])
        job.stage(name, Command.INFER, infer, memory={"logits": (at["logits"], layout.logits_image(logits))})
        return correct(logits, test.labels)

    beats = images.program.image_beats
    load = {"program": at["program"], "weights": at["weights"], "program_beats": beats}
    job.stage("load the network", Command.LOAD, load)
    before, counted = inferred("infer"), counters_of(golden)
    position, registers = golden.position, spec.step_registers(common, images)
    found = [slope for step in steps for slope in golden.step(x[step.indices], step.labels, step.rate)]
    train = {"weights": at["weights"], "samples": at["tune_samples"], "index": at["tune_index"]}
    train |= {"order": at["tune_order"], "state": at["state"], "records": at["records"]}
    train |= {"sample_count": len(tune), "steps": STEPS, "batch": BATCH, "position": position, **registers}
    counters = {name: value - counted[name] for name, value in counters_of(golden).items()} | {"steps_done": STEPS}
    job.stage("tune", Command.TRAIN, train, counters, {"records": (at["records"], layout.records_image(found, BATCH))})
    after = inferred("infer again")
    image = layout.deltas(golden.rows).image
    job.stage("save deltas", Command.SAVE_DELTAS, {"deltas": at["tuned"]}, memory={"deltas": (at["tuned"], image)})

    settings = {"program_beats": beats, "tune_count": len(tune), "tune_steps": STEPS, "tune_batch": BATCH}
    settings |= {"test_count": len(test), "test_steps": len(tested), "test_batch": INFERRED, "position": position}
    settings |= {name: registers[name] for name in ("eps_shift", "shift", "gap")}
    how = f"{STEPS} steps on {len(tune)} samples, batches of {BATCH}, rate {RATE:g}"
    data = ExampleData("digits", "", len(test), network.classes, drawn=True)
    stride = layout.logits(len(test)).size // len(test) // 4
    return Example(data, job, before, after, stride, settings, how, PROGRAM)


def _samples(job: SelfTest, regions: tuple[Region, ...], kind: str) -> dict[str, int]:
    """Give samples and their index a place."""
    return {f"{kind}_{one.register}": job.place(one, f"{kind}_{one.register}") for one in regions}
