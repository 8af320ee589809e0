"""Self-test of `zotrain`: deltas in and out, an inference, one step, several steps, an inference."""

from __future__ import annotations

import numpy as np

from ....golden.cores.zeroth_order.registers import Command
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.zo.deltas import DELTA, PerturbationTable
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.step_settings import StepSettings
from ...example.task import ExampleTask, start_of
from ...selftest.job import SelfTest
from ...selftest.played import PlayedSelfTest

SAMPLES, BATCH, STEPS = 6, 3, 3
RATE = 2e-3
"""Learning rate of a mean loss."""


def selftest(spec: ZotrainSpec, seed: int = 1, task: ExampleTask | None = None) -> SelfTest:
    """Self-test of a core with random parameters and samples, or with a task's parameters and first samples."""
    rng = np.random.default_rng(seed)
    layout, source = spec.layout, spec.source
    frozen, inputs, _, labels = start_of(spec, SAMPLES, rng, task)
    samples = len(labels)
    drawn = [rng.integers(0, samples, BATCH) for _ in range(STEPS)]
    rates, common = StepSettings(loss=spec.loss).with_rates([RATE] * STEPS, [BATCH] * STEPS, PerturbationTable(source))
    steps = [StepOrder(indices, labels[indices], rate) for indices, rate in zip(drawn, rates, strict=True)]
    job = ZerothOrderJob(NetworkModel(spec.mapping, frozen), source, common)
    largest = DELTA.maximum >> 8
    job.total = rng.integers(-largest, largest, job.total.shape)

    script, span = PlayedSelfTest(spec), job.layout.span
    address = {region.register: script.place(region) for region in (layout.parameters(frozen), layout.deltas(job.rows))}
    address["samples"] = script.place(layout.samples(inputs))
    parts = {"first": steps[:1], "rest": steps[1:]}
    orders = {name: script.place(layout.order(part, BATCH), name) for name, part in parts.items()}
    positions = {"first": 0, "rest": span % source.period}
    states = {name: script.place(layout.state(start), f"{name}_state") for name, start in positions.items()}
    records = script.place(layout.records(STEPS, BATCH))
    logits, saved = script.place(layout.logits(STEPS * BATCH)), script.place(layout.deltas(), "saved")

    def save(name: str) -> None:
        script.play(name, Command.SAVE_DELTAS, {"deltas": saved}, {"deltas": "deltas"})

    def infer(name: str, part: str) -> None:
        settings = {"samples": address["samples"], "order": orders[part], "logits": logits}
        settings |= {"sample_count": samples, "steps": len(parts[part]), "batch": BATCH}
        script.play(name, Command.INFER, settings, {"logits": "logits"})

    def train(name: str, part: str) -> None:
        settings = {"samples": address["samples"], "order": orders[part], "state": states[part], "records": records}
        settings |= {"sample_count": samples, "steps": len(parts[part]), "batch": BATCH, "position": positions[part]}
        settings |= spec.step_registers(common)
        script.play(name, Command.TRAIN, settings, {"records": "records"}, trains=True)

    script.play("load the network", Command.LOAD, {"parameters": address["parameters"]})
    script.play("load deltas", Command.LOAD_DELTAS, {"deltas": address["deltas"]})
    save("save the same deltas")
    infer("infer with one order", "first")
    train("train one step", "first")
    save("save its deltas")
    train("train more steps", "rest")
    save("save the last deltas")
    infer("infer", "rest")
    script.test.copies("load deltas", "save the same deltas")
    return script.test
