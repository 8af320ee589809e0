"""Sweep points of `zostream`: memory placement, cycles of the cost model, infeasible sizes."""

import numpy as np
import pytest

from fabtune.boards.cores.zostream.sweep import SWEEP
from fabtune.boards.sweep.design import ShapesWorkload, design_of
from fabtune.boards.sweep.objectives import cycles, dram_bytes
from fabtune.boards.sweep.space import Point, Space
from fabtune.golden.cores.zostream.random_network import RandomJob, random_images
from fabtune.golden.errors import UserError
from fabtune.golden.settings import settings_of
from fabtune.golden.stream.machine.cost_model import StepCost

from ....small_cores import zostream

SPACE = Space("space", "zostream", ("cycles",))
SETTINGS = dict(one.split("=") for one in settings_of(zostream()))


def point(**changed):
    """Sweep point of the small core with changed settings."""
    return Point(SETTINGS | {name: str(value) for name, value in changed.items()}, {})


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_memory_is_what_the_host_places(kind):
    spec, rng = zostream(), np.random.default_rng(0)
    images = random_images(spec, rng, kind)
    job = RandomJob(spec, images, rng, samples=4, batch=4, steps=1, longest=7)
    _, lengths = images.model.rows_of(job.sentences)
    workload = ShapesWorkload(images.model.transformer, tuple(int(one) for one in lengths))
    design = design_of(SPACE, point(), workload)
    assert (design.spec, design.core, design.array) == (spec, SWEEP, (8, 4))
    layout = job.layout
    regions = [
        *(*job.regions, layout.deltas(), layout.state(0), layout.order(job.orders, 4)),
        *(layout.records(1, 4), layout.logits(4)),
    ]
    assert dram_bytes(design, workload) == sum(region.size for region in regions)
    assert cycles(design, workload) == round(StepCost(workload.transformer, workload.lengths, spec.size).cycles)


def test_a_core_without_room_is_refused():
    transformer = random_images(zostream(), np.random.default_rng(0)).model.transformer
    with pytest.raises(UserError, match="a sentence of 17 tokens: the core has room for 16 of random encoder"):
        design_of(SPACE, point(), ShapesWorkload(transformer, (3, 17)))
    with pytest.raises(UserError, match="operations: the core was generated with operations = 8"):
        design_of(SPACE, point(operations=8), ShapesWorkload(transformer, (3,)))
