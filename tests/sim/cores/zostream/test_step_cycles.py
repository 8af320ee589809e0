"""Cycles of a step by operation: they sum to the command's cycles, and do not depend on memory contents."""

import pytest

from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.stream.machine.cost_model import on_paper
from fabtune.golden.transformer.sample_model import TRANSFORMERS
from fabtune.sim.cores.zostream.measured_jobs import step_cycles

SPEC = ZostreamSpec(**ZostreamSpec.presets["tiny"])


@pytest.mark.slow
def test_cycles_of_a_step_are_those_of_its_operations():
    network = on_paper(TRANSFORMERS["vit-digits"](0).network)
    one, four = (step_cycles(SPEC, network, (17,) * count) for count in (1, 4))
    assert len(one.operations) == len(four.operations) == 23
    # a pass per sentence; memory latency is random
    for once, more in zip(one.operations, four.operations, strict=True):
        assert abs(more / 4 - once) < 20 + 0.05 * once
    # outside operations: a perturbation and an update of 255 x 31 numbers per step, samples and losses per pass
    assert 2 * 255 * 31 < one.outside < four.outside < 2 * 255 * 31 + 4 * 800
