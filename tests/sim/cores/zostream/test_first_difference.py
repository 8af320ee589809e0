"""A job that differs from golden on the compiled core: the message names operation and token."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.cores.zostream.random_network import RandomJob, random_images
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.stream.machine.schedule import TransformerSchedule
from fabtune.sim.compiled.comparison import compare
from fabtune.sim.cores.zeroth_order_job import TrainingJob
from fabtune.sim.cores.zostream.first_difference import first_difference

SPEC = ZostreamSpec(**ZostreamSpec.presets["tiny"])


@pytest.mark.slow
def test_the_operation_of_another_weight_is_named():
    rng = np.random.default_rng(5)
    images = random_images(SPEC, rng, "encoder")
    own = RandomJob(SPEC, images, rng, 6, 4, 2, 7)
    model = images.model
    steps = TransformerSchedule(model.transformer, SPEC.lanes, SPEC.columns).steps
    step = next(one for one in steps[len(steps) // 2 :] if (one.number, "weight") in model.frozen)
    frozen = dict(model.frozen)
    frozen[step.number, "weight"] = frozen[step.number, "weight"] + (1 << 12)
    changed = replace(images, model=replace(model, frozen=frozen))
    job = TrainingJob(changed, own.sentences, own.orders, own.job.settings)
    played, comparison = compare(SPEC, job, own.sentences[:1])
    assert comparison.mismatches
    found = first_difference(SPEC, job, comparison.golden, played)
    title = model.transformer.network.titles[step.result]
    assert found.startswith(f"step 0: operation {step.result} ({title}), plus side, sample 0, token 0, feature 0: ")
