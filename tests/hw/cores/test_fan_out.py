"""Fan-out of the cores: at most about two thousand loads per net, and few flip-flops with a reset.

`test_slope_meter` estimates and checks the core of docs/composing-a-core.md.
"""

import pytest

from fabtune.boards.board import DEFAULT_BOARD, board
from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.golden.registry import CORES
from fabtune.golden.settings import build

from ...small_cores import NETWORK

MOST_LOADS = 2100
"""A 2,048-bit word may be selected at once, between two halves of a deep memory."""
SMALL = dict.fromkeys(("instantft", "zotrain"), (f"network={NETWORK}", "lanes=16"))
PRESETS = [(name, preset) for name, kind in CORES.items() for preset in kind.presets]


def check(spec, share):
    """Estimate a core; check nets and resets."""
    found = estimate_spec(spec, board(DEFAULT_BOARD).fabric)
    assert max(one.loads for one in found.fan_outs) <= MOST_LOADS, found.fan_outs[0]
    assert found.with_reset <= share * found.raw["ff"], (found.with_reset, found.raw["ff"])


@pytest.mark.slow
@pytest.mark.parametrize("core", SMALL)
def test_a_small_core_has_no_large_net_and_few_resets(core):
    check(build(CORES[core], SMALL[core]), 0.28)


@pytest.mark.slow
@pytest.mark.parametrize(("core", "preset"), PRESETS)
def test_a_preset_has_no_large_net_and_few_resets(core, preset):
    check(build(CORES[core], (), preset), 0.25 if preset == "tiny" else 0.2)
