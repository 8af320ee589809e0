"""Jobs of `zostream` on the compiled core: records, deltas after every step, counters, logits; networks in turn."""

import numpy as np
import pytest

from fabtune.golden.cores.zostream.random_network import RandomJob, random_images
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.zo.split import Split
from fabtune.sim.compiled.comparison import compare, simulated_core
from fabtune.sim.compiled.playing import host_on
from fabtune.sim.compiled.session import Dram
from fabtune.sim.cores.zeroth_order_job import TrainingJob, same

from ....integer_jobs import run_integers

SPEC = ZostreamSpec(**ZostreamSpec.presets["tiny"])
KINDS = [("perceptron", {}), ("encoder", {}), ("decoder", {}), ("encoder", {"sensitive": 9}), ("decoder", {"first": 8})]
FIXED = [("perceptron", 3), ("encoder", 2), ("encoder", 20), ("decoder", 8)]
"""Cuts before the tuned part, by the rows that pass: a pooled row, a wide row per token, another pooled row, a row per
token.
"""
CUTS = [
    ("perceptron", Split(2, 1, 1), {}),
    ("encoder", Split(2, 2, 3), {}),
    ("encoder", Split(20, 1, 2), {"scalars": True}),
    ("decoder", Split(8, 2, 2), {"scalars": True}),
    ("decoder", Split(15, 3, 1), {}),
]
pytestmark = pytest.mark.slow


def drawn(kind, given, seed=0, **settings):
    """A job of four steps, the last with fewer samples."""
    rng = np.random.default_rng(seed)
    own = RandomJob(SPEC, random_images(SPEC, rng, kind, **given), rng, 6, 4, 4, 7, position=33, **settings)
    return own, TrainingJob(own.images, own.sentences, own.orders, own.job.settings, 33)


@pytest.mark.parametrize(("kind", "given"), KINDS, ids=str)
def test_a_job_is_the_integer_job(kind, given):
    own, job = drawn(kind, given)
    played, comparison = compare(SPEC, job, own.sentences[:2])
    assert (comparison.mismatches, comparison.compared, comparison.logits_compared) == (0, 4, 2)
    assert len({slope.coefficient for slope in played.ran.slopes}) == 4


@pytest.mark.parametrize(("kind", "cut"), FIXED, ids=str)
def test_a_job_behind_a_forward_cache_is_the_integer_job(kind, cut):
    own, job = drawn(kind, {"first": cut, "cut": cut})
    assert job.network.cached
    _, comparison = compare(SPEC, job, own.sentences[:2])
    assert (comparison.mismatches, comparison.compared) == (0, 4)
    whole, without = drawn(kind, {"first": cut})
    _, longer = compare(SPEC, without, whole.sentences[:2])
    assert longer.mismatches == 0
    assert comparison.cycles < longer.cycles


@pytest.mark.parametrize(("kind", "split", "settings"), CUTS, ids=str)
def test_a_job_that_is_cut_is_the_integer_job(kind, split, settings):
    own, job = drawn(kind, {"cut": split.cut}, split=split, **settings)
    played, comparison = compare(SPEC, job, own.sentences[:2])
    assert (comparison.mismatches, comparison.compared, comparison.logits_compared) == (0, 4, 2)
    assert len(played.ran.slopes) == 4 * split.slopes


@pytest.mark.parametrize(
    ("given", "settings"),
    [({}, {}), ({"first": 3, "cut": 3}, {}), ({"cut": 3}, {"split": Split(3, 1, 2)})],
    ids=["whole", "cached", "cut"],
)
def test_a_hostile_memory_changes_no_bit(given, settings):
    own, job = drawn("encoder", given, seed=1, **settings)
    _, comparison = compare(SPEC, job, own.sentences[:2], Dram.stressed(), seed=3)
    assert comparison.mismatches == 0


def test_networks_one_after_the_other_on_one_core():
    device = simulated_core(SPEC, None, 0, lambda _: None)
    host = host_on(device, drawn("encoder", {})[1], SPEC)
    for kind, given in KINDS[:3]:
        own, job = drawn(kind, given, seed=2)
        job.load(host)
        trained = host.train(job.inputs, job.steps, job.settings, job.position)
        steps = zip(run_integers(job, SPEC, own.job), trained.slopes, strict=True)
        assert all(same(*golden, found) for golden, found in steps)
        assert np.array_equal(job.tuned(host), own.job.rows)
