"""The core of a zeroth-order job: preset, array and generator, and refused jobs."""

from dataclasses import replace

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.models.text import network_from, preset
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer import core_settings
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.sim.cores.zotrain.tune import TUNER

SETTINGS = core_settings(ZoSettings("pezo-otf", 5e-4, 2.0**-10, Schedule(10, 20)))


@pytest.mark.parametrize(("core", "array"), [("tiny", (16, 4)), ("small", (32, 4)), ("fast", (32, 8))])
def test_a_preset_is_an_array_for_the_jobs_network_and_samples(core, array):
    spec = TUNER.spec_for(preset("fan"), SETTINGS, 100, byte_inputs=False, preset=core)
    assert (spec.lanes, spec.columns) == array
    assert (spec.network, spec.byte_inputs, spec.generator.width) == ("fan", False, 31)
    assert TUNER.spec_for(preset("digits"), SETTINGS, 100, byte_inputs=True, preset=core).network == "digits"


def test_the_generator_is_the_settings():
    pool = core_settings(ZoSettings("pezo-pool", 5e-4, 2.0**-10, SETTINGS.schedule, parameters=("pool.size=8415",)))
    spec = TUNER.spec_for(preset("digits"), pool, 100, byte_inputs=True)
    assert (spec.generator.strategy, spec.generator.pool.size, spec.generator.width) == ("pool", 8415, 33)


@pytest.mark.parametrize(
    ("network", "changes", "core", "says"),
    [
        ("digits", {}, "chip", "there is no core 'chip'; there are: tiny, small, fast"),
        ("digits", {"queries": 2}, "tiny", "queries = 2"),
        ("digits", {"parameters": ("scale.urng.n=7",)}, "tiny", "a generator of 7 numbers a cycle"),
        ("digits", {"parameters": ("replay=false",)}, "tiny", "generator.replay = false"),
        ("4000 fc1000 relu fc2", {}, "small", "more than 4 megabytes"),
    ],
)
def test_what_the_core_cannot_run_is_refused(network, changes, core, says):
    described = preset(network) if network == "digits" else network_from(network)
    with pytest.raises(UserError, match=says):
        TUNER.spec_for(described, replace(SETTINGS, **changes), 100, byte_inputs=True, preset=core)
