"""Example of `zotrain`: some hundred zeroth-order steps, all weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.axi.regions import JobMemory, Region
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.fixed import q8_16_of_bytes
from ....golden.zo.deltas import PerturbationTable
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.step_settings import StepSettings
from ...example.digits import Digits, as_read, correct
from ...example.job import Example

STEPS_AND_RATES = {"digits": (600, 1e-3), "lenet5-mnist": (40, 3e-4)}
"""By network: of the larger one as few as golden computes in a second."""
BATCH, INFERRED = 20, 100
"""Samples of a step, and of a step of an inference."""
PROGRAM = Path(__file__).with_name("example.c")
"""The core's commands in C."""


def example(spec: ZotrainSpec, digits: Digits) -> Example:
    """Make the example of a core.

    Parameters
    ----------
    spec : ZotrainSpec
    digits : Digits
        Task for its network.
    """
    layout, source, tune, test = spec.layout, spec.source, digits.tune, digits.test
    x, xt = q8_16_of_bytes(tune.inputs), q8_16_of_bytes(test.inputs)
    count, rate = STEPS_AND_RATES[spec.network]
    rates, common = StepSettings().with_rates([rate] * count, [BATCH] * count, PerturbationTable(source))
    job = ZerothOrderJob(NetworkModel(spec.mapping, digits.frozen), source, common)
    rng = np.random.default_rng(2)
    drawn = [rng.integers(0, len(tune), BATCH) for _ in range(count)]
    steps = [StepOrder(one, tune.labels[one], rate) for one, rate in zip(drawn, rates, strict=True)]
    tested = [StepOrder(one, test.labels[one], 0) for one in np.split(np.arange(len(test)), len(test) // INFERRED)]

    before = correct(job.logits(xt), test.labels)
    for step in steps:
        job.step(x[step.indices], step.labels, step.rate)
    after = correct(job.logits(xt), test.labels)

    memory, registers = JobMemory(), spec.step_registers(common)
    memory.place(layout.parameters(digits.frozen))
    memory.place(layout.samples(as_read(tune, spec.byte_inputs)), "tune_samples")
    memory.place(layout.order(steps, BATCH), "tune_order")
    memory.place(layout.state(0))
    memory.place(layout.samples(as_read(test, spec.byte_inputs)), "test_samples")
    memory.place(layout.order(tested, INFERRED), "test_order")
    memory.place(Region.containing("labels", test.labels.astype(np.uint8)))
    memory.place(layout.records(count, BATCH))
    memory.place(layout.logits(len(test)))
    settings = {
        "tune_count": len(tune),
        "tune_steps": count,
        "tune_batch": BATCH,
        "test_count": len(test),
        "test_steps": len(tested),
        "test_batch": INFERRED,
        **{name: registers[name] for name in ("eps_shift", "shift", "gap")},
    }
    classes = spec.described.classes
    return Example(spec, before, after, len(test), classes, layout.logit_beats * BEAT // 4, settings, PROGRAM, memory)
