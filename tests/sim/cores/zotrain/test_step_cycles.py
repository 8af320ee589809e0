"""Cycles of a step, without the command's overhead: independent of the number of steps."""

import pytest

from fabtune.sim.cores.zotrain.measured_jobs import step_cycles

from ....small_cores import zotrain

# the core of tests/boards/host: shared build
SPEC = zotrain()


@pytest.mark.slow
def test_cycles_of_a_step_are_those_of_its_passes_and_walks():
    few, many = (step_cycles(SPEC, batch=4, steps=steps) for steps in (1, 3))
    # except for the random memory latency
    assert abs(few.cycles - many.cycles) < 0.02 * few.cycles
    assert few.mismatches == many.mismatches == 0
    work = sum(stage.cycles for stage in SPEC.mapping.forward.stages)
    # two passes of each sample; offsets, update, and the ring that returns to the mark; pipelines and softmax
    least = 2 * 4 * work + SPEC.mapping.words + SPEC.source.replay_cycles
    # a pause of about 20 cycles after each stage of a pass; pipelines, softmax, coefficient once
    most = least + 2 * 4 * 25 * len(SPEC.mapping.forward.stages) + 400
    assert least < few.cycles < most
