"""`fabtune tune` of a transformer on the compiled core, as a user meets the command."""

import numpy as np
import pytest

from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.errors import UserError
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer import core_settings
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.sim.compiled.tuner import transformer_tuner_of
from fabtune.sim.cores.zostream.tune import TRANSFORMER_TUNER, used


def test_the_core_of_a_job_has_the_method_s_generator():
    assert transformer_tuner_of("pezo-otf") is TRANSFORMER_TUNER
    with pytest.raises(UserError, match="no core runs the jobs of mezo on transformers"):
        transformer_tuner_of("mezo")
    settings = core_settings(ZoSettings(eps=2**-10))
    assert TRANSFORMER_TUNER.spec_for(settings, "tiny") == ZostreamSpec(**ZostreamSpec.presets["tiny"])
    with pytest.raises(UserError, match="there is no core 'large'; there are: tiny, small, fast"):
        TRANSFORMER_TUNER.spec_for(settings, "large")


def test_samples_that_no_step_uses_are_left_out():
    inputs = np.arange(10)[:, None] * 7
    orders = [StepOrder(np.array([8, 2]), np.array([1, 0]), 5), StepOrder(np.array([2, 3]), np.array([0, 1]), 6)]
    some, steps = used(inputs, orders)
    assert some[:, 0].tolist() == [14, 21, 56]
    for step, own in zip(steps, orders, strict=True):
        assert np.array_equal(some[step.indices], inputs[own.indices])
        assert np.array_equal(step.labels, own.labels)
        assert step.rate == own.rate
