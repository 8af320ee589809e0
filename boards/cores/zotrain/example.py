"""Example of `zotrain`: zeroth-order steps, all weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.axi.regions import Region
from ....golden.cores.zeroth_order.registers import Command
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.errors import UserError
from ....golden.rng.perturbation import POSITIONS
from ....golden.train.zo.methods import ZoDefaults, zo_defaults
from ....golden.train.zo.schedule import Schedule
from ....golden.zo.coefficient import LARGEST_BATCH
from ....golden.zo.deltas import PerturbationTable
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.step_settings import StepSettings
from ...example.job import Example
from ...example.task import ExampleTask, as_read, correct, only, values_of
from ...selftest.job import SelfTest

DRAWN = {"digits": ZoDefaults(600, 20, 1e-3, 0), "lenet5-mnist": ZoDefaults(40, 20, 3e-4, 0)}
"""Steps, batch and rate for a network that was drawn: of the larger one as few as golden computes in a second."""
INFERRED = 100
"""Samples of a step of an inference."""
PROGRAM = Path(__file__).with_name("example.c")
"""The core's commands in C."""


def example(spec: ZotrainSpec, task: ExampleTask) -> Example:
    """Make the example of a core: the job of `fabtune tune` on its array with the same seed, steps, batch and rate.

    Longer than most: its commands go on from one job.

    Parameters
    ----------
    spec : ZotrainSpec
    task : ExampleTask
        Network, samples and settings.

    Raises
    ------
    UserError
        If a batch is larger than a step can be.
    """
    layout, source, tune, test = spec.layout, spec.source, task.tune, task.test
    only(task, spec.name, "steps", "epochs")
    x, xt = values_of(tune), values_of(test)
    defaults = DRAWN[task.network] if task.drawn else zo_defaults(task.network)
    count, batch = task.steps or defaults.steps, min(task.batch or defaults.batch, len(tune))
    if (task.batch or 0) > LARGEST_BATCH:
        raise UserError(f"--batch {task.batch}: a step of the core has at most {LARGEST_BATCH} samples")
    eta = task.rate or defaults.core_rate or defaults.rate
    drawn = [*Schedule(count, batch, task.seed).indices(len(tune))]
    rates, common = StepSettings().with_rates([eta] * count, [len(one) for one in drawn], PerturbationTable(source))
    steps = [StepOrder(one, tune.labels[one], rate) for one, rate in zip(drawn, rates, strict=True)]
    # as `fabtune tune` draws it; a sequence that is longer than a register begins with its first number
    position = int(np.random.default_rng([task.seed, 4]).integers(source.period)) if source.period <= POSITIONS else 0
    golden = ZerothOrderJob(NetworkModel(spec.mapping, task.frozen), source, common, position)
    parts = np.split(np.arange(len(test)), range(INFERRED, len(test), INFERRED))
    tested = [StepOrder(one, test.labels[one], 0) for one in parts]

    job = SelfTest(spec)
    at = {
        "parameters": job.place(layout.parameters(task.frozen)),
        "tune_samples": job.place(layout.samples(as_read(tune, spec.byte_inputs)), "tune_samples"),
        "tune_order": job.place(layout.order(steps, batch), "tune_order"),
        "state": job.place(layout.state(position)),
        "test_samples": job.place(layout.samples(as_read(test, spec.byte_inputs)), "test_samples"),
        "test_order": job.place(layout.order(tested, INFERRED), "test_order"),
        "labels": job.place(Region.containing("labels", test.labels.astype(np.uint8))),
        "records": job.place(layout.records(count, batch)),
        "logits": job.place(layout.logits(len(test))),
        "tuned": job.place(layout.deltas(), "tuned"),
    }
    infer = {"samples": at["test_samples"], "order": at["test_order"], "logits": at["logits"]}
    infer |= {"sample_count": len(test), "steps": len(tested), "batch": INFERRED}

    def inferred(name: str) -> int:
        logits = np.concatenate([golden.logits(xt[one]) for one in parts])
        job.stage(name, Command.INFER, infer, memory={"logits": (at["logits"], layout.logits_image(logits))})
        return correct(logits, test.labels)

    job.stage("load the network", Command.LOAD, {"parameters": at["parameters"]})
    before = inferred("infer")
    clipped = golden.saturations, golden.coefficients_clipped
    found = [slope for step in steps for slope in golden.step(x[step.indices], step.labels, step.rate)]
    registers = spec.step_registers(common)
    train = {"samples": at["tune_samples"], "order": at["tune_order"], "state": at["state"], "records": at["records"]}
    train |= {"sample_count": len(tune), "steps": count, "batch": batch, "position": position, **registers}
    counters = {
        "steps_done": count,
        "saturations": golden.saturations - clipped[0],
        "coefficients_clipped": golden.coefficients_clipped - clipped[1],
    }
    memory = {"records": (at["records"], layout.records_image(found, batch))}
    job.stage("tune", Command.TRAIN, train, counters, memory)
    after = inferred("infer again")
    image = layout.deltas(golden.rows).image
    job.stage("save deltas", Command.SAVE_DELTAS, {"deltas": at["tuned"]}, memory={"deltas": (at["tuned"], image)})

    settings = {"tune_count": len(tune), "tune_steps": count, "tune_batch": batch, "test_count": len(test)}
    settings |= {"test_steps": len(tested), "test_batch": INFERRED, "position": position}
    settings |= {name: registers[name] for name in ("eps_shift", "shift", "gap")}
    how = f"{count} steps on {len(tune)} samples, batches of {batch}, rate {eta:g}"
    return Example(task.data(spec), job, before, after, layout.logit_beats * BEAT // 4, settings, how, PROGRAM)
