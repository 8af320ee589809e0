"""The early stop in RTL against golden's rule: losses that fall, rise and stay, limits, and patience."""

import numpy as np
import pytest

from fabtune.golden.lora.early_stop import EarlyStop
from fabtune.hw.lora.job.early_stop import StopDecision

LARGEST = (1 << 32) - 1
LOSSES = [
    [9, 8, 8, 9, 7, 6, 6, 6, 6, 5],
    [LARGEST, LARGEST, LARGEST, 0, 0, 1],
    np.random.default_rng(0).integers(0, 1 << 32, 30).tolist(),
]


def run(simulate, jobs, limit, patience):
    """Whether the job ends, after each loss of each job."""
    dut, found = StopDecision(patient=True), []

    async def bench(ctx):
        ctx.set(dut.limit, limit)
        ctx.set(dut.patience.losses, patience)
        for losses in jobs:
            ctx.set(dut.patience.start, 1)
            await ctx.tick()
            ctx.set(dut.patience.start, 0)
            for loss in losses:
                ctx.set(dut.loss, loss)
                ctx.set(dut.patience.complete, 1)
                await ctx.tick()
                ctx.set(dut.patience.complete, 0)
                await ctx.tick().repeat(StopDecision.LATENCY - 1)
                found.append(bool(ctx.get(dut.low)))

    simulate(dut, bench)
    return found


@pytest.mark.parametrize("limit", [0, 5, LARGEST // 4])
@pytest.mark.parametrize("patience", [0, 1, 3, LARGEST])
def test_a_job_ends_as_golden_says(simulate, limit, patience):
    expected = [rule.ends(loss) for losses in LOSSES for rule in [EarlyStop(limit, patience)] for loss in losses]
    assert run(simulate, LOSSES, limit, patience) == expected


def test_without_patience_the_limit_decides(simulate):
    dut, found = StopDecision(), []

    async def bench(ctx):
        ctx.set(dut.limit, 7)
        for loss in LOSSES[0]:
            ctx.set(dut.loss, loss)
            await ctx.tick().repeat(StopDecision.LATENCY)
            found.append(bool(ctx.get(dut.low)))

    simulate(dut, bench)
    assert found == [EarlyStop(7).ends(loss) for loss in LOSSES[0]]
