"""Self-test of `zotrain`: deltas in and out, one forward pass, one step, several steps, an inference."""

from __future__ import annotations

import numpy as np

from ....golden.cores.zotrain.registers import Command
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.zo.deltas import DELTA, PerturbationTable
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.step_settings import StepSettings
from ...example.task import ExampleTask, start_of
from ...selftest.job import SelfTest

SAMPLES, BATCH, STEPS = 6, 3, 3
RATE = 2e-3
"""Learning rate of a mean loss."""


def selftest(spec: ZotrainSpec, seed: int = 1, task: ExampleTask | None = None) -> SelfTest:
    """Make the self-test of a core, with random parameters and samples, or with a task's and the first of its samples.

    Parameters
    ----------
    spec : ZotrainSpec
    seed : int
    task : ExampleTask, optional
    """
    rng = np.random.default_rng(seed)
    layout, source = spec.layout, spec.source
    frozen, inputs, x, labels = start_of(spec, SAMPLES, rng, task)
    samples = len(labels)
    drawn = [rng.integers(0, samples, BATCH) for _ in range(STEPS)]
    rates, common = StepSettings(loss=spec.loss).with_rates([RATE] * STEPS, [BATCH] * STEPS, PerturbationTable(source))
    steps = [StepOrder(one, labels[one], rate) for one, rate in zip(drawn, rates, strict=True)]
    job = ZerothOrderJob(NetworkModel(spec.mapping, frozen), source, common)
    largest = DELTA.maximum >> 8
    job.total = rng.integers(-largest, largest, job.total.shape)

    test = SelfTest(spec)
    span = job.layout.span
    at = {region.register: test.place(region) for region in (layout.parameters(frozen), layout.deltas(job.rows))}
    at["samples"] = test.place(layout.samples(inputs))
    first, rest = steps[:1], steps[1:]
    orders = {name: test.place(layout.order(part, BATCH), name) for name, part in (("first", first), ("rest", rest))}
    states = {
        name: test.place(layout.state(position % source.period), f"{name}_state")
        for name, position in (("first", 0), ("rest", span))
    }
    records = test.place(layout.records(STEPS, BATCH))
    logits, saved = test.place(layout.logits(STEPS * BATCH)), test.place(layout.deltas(), "saved")

    def save(name: str) -> None:
        memory = {"deltas": (saved, layout.deltas(job.rows).image)}
        test.stage(name, Command.SAVE_DELTAS, {"deltas": saved}, memory=memory)

    def infer(name: str, part: str, chosen: list[StepOrder]) -> None:
        found = layout.logits_image(job.logits(x[np.concatenate([one.indices for one in chosen])]))
        settings = {"samples": at["samples"], "order": orders[part], "logits": logits}
        settings |= {"sample_count": samples, "steps": len(chosen), "batch": BATCH}
        test.stage(name, Command.INFER, settings, memory={"logits": (logits, found)})

    def train(name: str, part: str, chosen: list[StepOrder]) -> None:
        position, before = job.position, (job.saturations, job.coefficients_clipped)
        found, images = [], [layout.deltas(job.rows).image]
        for one in chosen:
            found += job.step(x[one.indices], one.labels, one.rate)
            images.append(layout.deltas(job.rows).image)
        settings = {"samples": at["samples"], "order": orders[part], "state": states[part], "records": records}
        settings |= {"sample_count": samples, "steps": len(chosen), "batch": BATCH, "position": position}
        settings |= spec.step_registers(common)
        counters = {
            "steps_done": len(chosen),
            "saturations": job.saturations - before[0],
            "coefficients_clipped": job.coefficients_clipped - before[1],
        }
        memory = {"records": (records, layout.records_image(found, BATCH))}
        test.stage(name, Command.TRAIN, settings, counters, memory, images)

    test.stage("load the network", Command.LOAD, {"parameters": at["parameters"]})
    test.stage("load deltas", Command.LOAD_DELTAS, {"deltas": at["deltas"]})
    save("save the same deltas")
    infer("infer with one order", "first", first)
    train("train one step", "first", first)
    save("save its deltas")
    train("train more steps", "rest", rest)
    save("save the last deltas")
    infer("infer", "rest", rest)
    test.copies("load deltas", "save the same deltas")
    return test
