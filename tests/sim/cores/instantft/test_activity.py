"""Toggles in batches of tuning, with either cache; cores without a baseline."""

import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.settings import build as spec_from
from fabtune.sim.compiled.activity import ActivityJob, activity
from fabtune.sim.cores.instantft.measured_jobs import ACTIVITY
from fabtune.sim.simulator import find

PERIOD = 4000

pytestmark = pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")


@pytest.mark.slow
def test_a_cache_of_nf4_moves_less_than_one_of_words():
    spec = InstantftSpec(network="1x4x4 flatten fc8 relu fc4", lanes=16, columns=2, rank=2, batch=4, cache_entries=8)
    name, same, raw = ACTIVITY.baseline(spec, ActivityJob(steps=3))
    own, other = activity(spec, ActivityJob(steps=3), PERIOD), activity(same, raw, PERIOD)
    assert name == "cache of Q8.16"
    assert own.bit_exact
    assert other.bit_exact
    assert own.batch == 4
    assert own.ports["m_axi_gmem0 r"].count < other.ports["m_axi_gmem0 r"].count


def test_some_cores_have_nothing_to_compare_with():
    assert ACTIVITY.baseline(spec_from(InstantftSpec, (), "chip"), ActivityJob()) is None
    assert ACTIVITY.baseline(spec_from(InstantftSpec, (), "tiny"), ActivityJob(raw=True)) is None
