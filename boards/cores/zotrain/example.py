"""Example of `zotrain`: zeroth-order steps, all weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ....golden.cores.zotrain.golden_core import GoldenZotrain
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.errors import UserError
from ....golden.rng.perturbation import POSITIONS
from ....golden.train.zo.methods import ZoDefaults, zo_defaults
from ....golden.zo.coefficient import LARGEST_BATCH
from ...example.job import Example
from ...example.task import ExampleTask, as_read, only
from ...example.zeroth_order import zeroth_order_example

DRAWN = {"digits": ZoDefaults(600, 20, 1e-3, 0), "lenet5-mnist": ZoDefaults(40, 20, 3e-4, 0)}
"""Steps, batch and rate for a random network; few steps for the larger network, so that golden needs only a second."""
PROGRAM = Path(__file__).with_name("example.c")
"""C source of the core's commands."""


def example(spec: ZotrainSpec, task: ExampleTask) -> Example:
    """Example of a core: the job of `fabtune tune` on its array with the task's seed, steps, batch and rate.

    A batch beyond the core's limit is a `UserError`.
    """
    layout, source, tune, test = spec.layout, spec.source, task.tune, task.test
    only(task, spec.name, "steps", "epochs")
    defaults = DRAWN[task.network] if task.drawn else zo_defaults(task.network)
    if (task.batch or 0) > LARGEST_BATCH:
        raise UserError(f"--batch {task.batch}: a step of the core has at most {LARGEST_BATCH} samples")
    # the position of `fabtune tune`; a sequence longer than a register's range starts at 0
    position = int(np.random.default_rng([task.seed, 4]).integers(source.period)) if source.period <= POSITIONS else 0
    return zeroth_order_example(
        GoldenZotrain(spec),
        layout,
        task.data(spec),
        tune,
        test,
        network=[layout.parameters(task.frozen)],
        regions=lambda samples: [layout.samples(as_read(samples, spec.byte_inputs))],
        steps=task.steps or defaults.steps,
        batch=min(task.batch or defaults.batch, len(tune)),
        rate=task.rate or defaults.core_rate or defaults.rate,
        seed=task.seed,
        position=position,
        counters=("steps_done", "saturations", "coefficients_clipped"),
        program=PROGRAM,
    )
