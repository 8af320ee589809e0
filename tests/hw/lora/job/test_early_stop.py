"""Early stop in RTL compared with golden's rule: falling, rising and constant losses, limits, patience."""

import numpy as np
import pytest

from fabtune.golden.lora.early_stop import EarlyStop
from fabtune.hw.lora.job.early_stop import StopDecision

from ...play import play_interface

LARGEST = (1 << 32) - 1
LOSSES = [
    [9, 8, 8, 9, 7, 6, 6, 6, 6, 5],
    [LARGEST, LARGEST, LARGEST, 0, 0, 1],
    np.random.default_rng(0).integers(0, 1 << 32, 30).tolist(),
]


@pytest.mark.parametrize("limit", [0, 5, LARGEST // 4])
@pytest.mark.parametrize("patience", [0, 1, 3, LARGEST])
def test_a_job_ends_as_golden_says(limit, patience):
    expected = [rule.ends(loss) for losses in LOSSES for rule in [EarlyStop(limit, patience)] for loss in losses]
    found = []

    async def body(bench):
        for losses in LOSSES:
            await bench.pulse("patience.start")
            for loss in losses:
                bench.set(loss=loss)
                await bench.pulse("patience.complete")
                await bench.tick(StopDecision.LATENCY - 1)
                found.append(bool(bench.get("low")))

    play_interface(StopDecision(patient=True), body=body, wires={"limit": limit, "patience.losses": patience})
    assert found == expected


def test_without_patience_the_limit_decides():
    found = []

    async def body(bench):
        for loss in LOSSES[0]:
            bench.set(loss=loss)
            await bench.tick(StopDecision.LATENCY)
            found.append(bool(bench.get("low")))

    play_interface(StopDecision(), body=body, wires={"limit": 7})
    assert found == [EarlyStop(7).ends(loss) for loss in LOSSES[0]]
