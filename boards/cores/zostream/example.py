"""Example of `zostream`: a vision transformer for digits, zeroth-order steps, all weights."""

from __future__ import annotations

from pathlib import Path

from ....golden.cores.zostream.golden_core import GoldenZostream
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.errors import UserError
from ...example.digits import DRIFT, TESTED, TUNED
from ...example.job import Example, ExampleData
from ...example.zeroth_order import zeroth_order_example
from .digits_transformer import DigitsTransformer

STEPS, BATCH, RATE = 60, 20, 3e-5
"""Few steps, so that golden needs only seconds; more steps would raise the accuracy further."""
COUNTERS = ("saturations", "offsets_clipped", "coefficients_clipped", "steps_done")
"""Counters of the training that are compared."""
PROGRAM = Path(__file__).with_name("example.c")
"""C source of the core's commands."""


def example(spec: ZostreamSpec) -> Example | None:
    """Example of a core; None for a core too small for the network."""
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
    return zeroth_order_example(
        GoldenZostream(spec, [images]),
        layout,
        ExampleData("digits", "", len(test), network.classes, drawn=True),
        tune,
        test,
        network=layout.network(images),
        numbers={"program_beats": images.program.image_beats},
        inference={"cached": 0},
        regions=lambda samples: layout.samples([*network.rows(samples)]),
        steps=STEPS,
        batch=BATCH,
        rate=RATE,
        counters=COUNTERS,
        program=PROGRAM,
    )
