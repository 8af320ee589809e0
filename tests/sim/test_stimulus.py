"""Random lengths, and the two jobs of a block whose bench module provides only a stimulus."""

import numpy as np
import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.grng import GrngSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.sim.scenario import scenario
from fabtune.sim.stimulus import random_lengths
from fabtune.sim.zo.tb_perturb import stimulus


def test_lengths_are_within_and_add_up():
    lengths = random_lengths(np.random.default_rng(0), 1000, 7)
    assert sum(lengths) == 1000
    assert set(lengths) <= set(range(1, 8))
    assert min(lengths.count(1), lengths.count(7)) > 20


def test_two_jobs_follow_each_other():
    spec = PerturbSpec(lanes=3)
    first, second = scenario(spec, np.random.default_rng(5), 40)
    rng = np.random.default_rng(5)
    for phase in (first, second):
        given = stimulus(spec, rng, 40)
        assert all(np.array_equal(phase.inputs["i"][name], column) for name, column in given["i"].items())
        assert np.array_equal(phase.expected["o"]["weight"], spec.run(given, 40)["o"]["weight"])
    assert (first.reset, first.cycles, first.quiet) == (True, 40 + spec.latency, True)
    assert (second.reset, second.cycles, second.quiet) == (False, None, True)


def test_a_source_goes_on_from_where_it_stopped():
    spec = build(GrngSpec)
    first, second = scenario(spec, np.random.default_rng(0), 50)
    words = spec.run({}, 100)["o"]["number"]
    assert np.array_equal(np.concatenate([phase.expected["o"]["number"] for phase in (first, second)]), words)
    assert not first.quiet


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_has_a_stimulus(name):
    assert any(BLOCKS[name].part("sim", f"tb_{name}", which) for which in ("scenario", "stimulus"))
