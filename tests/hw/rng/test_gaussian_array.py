"""RTL of `gaussian_array`: cost of replay."""

import pytest

from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.golden.rng.gaussian_array import GaussianArraySpec
from fabtune.golden.rng.grng import WIDTHS
from fabtune.sim.verify import verify


@pytest.mark.parametrize("form", ["select", "tree"])
def test_another_seed_of_the_array_is_seen(form, fast_simulator):
    verdict = verify(GaussianArraySpec(n=2, form=form), fast_simulator, words=60, rtl=GaussianArraySpec(n=2, seed=1))
    assert not verdict.passed


def test_the_copy_is_a_shift_register_in_luts():
    spec = GaussianArraySpec(n=8, form="select")
    found = estimate_spec(spec)
    assert found.raw["SRLC32E"] == 17 == spec.replay_cycles / 32
    # registers, the last stage of the copy, and the iteration counter
    assert found.resources["ff"] <= 8 * sum(WIDTHS) + 1 + 20
