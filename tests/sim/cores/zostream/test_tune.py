"""`fabtune tune` of a transformer on the compiled core, as a user meets it."""

import pytest

from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.errors import UserError
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer_tuning import core_settings
from fabtune.golden.zo.split import Split
from fabtune.sim.compiled.tuner import transformer_tuner_of
from fabtune.sim.cores.zostream.tune import TRANSFORMER_TUNER


def test_the_core_of_a_job_has_the_method_s_generator():
    assert transformer_tuner_of("pezo-otf") is TRANSFORMER_TUNER
    with pytest.raises(UserError, match="no core runs the jobs of mezo on transformers"):
        transformer_tuner_of("mezo")
    settings = core_settings(ZoSettings(eps=2**-10))
    assert TRANSFORMER_TUNER.spec_for(settings, "tiny") == ZostreamSpec(**ZostreamSpec.presets["tiny"])
    with pytest.raises(UserError, match="there is no core 'large'; there are: tiny, small, fast"):
        TRANSFORMER_TUNER.spec_for(settings, "large")
    with pytest.raises(UserError, match="cut = 1: zostream does not cut a network"):
        TRANSFORMER_TUNER.spec_for(core_settings(ZoSettings(eps=2**-10, split=Split(1))), "tiny")
