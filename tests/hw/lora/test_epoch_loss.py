"""The epoch loss in RTL against golden's: every probability, several epochs, gaps, and its largest sum."""

import numpy as np
import pytest

from fabtune.golden.lora.epoch_loss import LARGEST_SUM, sample_losses
from fabtune.hw.lora.epoch_loss import EpochLoss

CLASSES = 3


def run(simulate, gradients, labels, samples, limit, gaps=0.0, largest=LARGEST_SUM):
    """Loss of each epoch, and whether it was low."""
    dut, found, low = EpochLoss(largest), [], []
    rng = np.random.default_rng(4)

    async def bench(ctx):
        ctx.set(dut.samples, samples)
        ctx.set(dut.limit, limit)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        queue = [(int(value), at == CLASSES - 1) for row in gradients for at, value in enumerate(row)]
        total, waits = 0, []
        for cycle in range(10 * len(queue) + 20):
            given = bool(queue) and rng.random() >= gaps
            ctx.set(dut.gradients.valid, given)
            # what is there without `valid` does not matter
            value, last = queue.pop(0) if given else (-1, True)
            ctx.set(dut.gradients.gradient, value)
            ctx.set(dut.gradients.last, last)
            if step := ctx.get(dut.step):
                total = (total + step) % (1 << 32)
                found.append(total)
                waits.append(cycle + 2)
            if cycle in waits:
                low.append(ctx.get(dut.low))
            await ctx.tick()
            if not queue and cycle > 8 * len(gradients) + 20:
                break

    simulate(dut, bench)
    return found, low


def material(count, seed=0):
    """Gradients with any probability at the label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    gradients = rng.integers(0, 2000, (count, CLASSES))
    gradients[np.arange(count), labels] = rng.permutation(np.resize(np.arange(4097), count)) - 4096
    return gradients, labels


def test_every_probability(simulate):
    gradients, labels = material(4097)
    expected = sample_losses(gradients, labels)
    found, low = run(simulate, gradients, labels, 1, 5000)
    # an epoch of one sample: a step of 0 cannot be told from none
    changes = expected[np.flatnonzero(np.diff(expected, prepend=0))]
    assert found == changes.tolist()
    assert low == (changes <= 5000).tolist()


@pytest.mark.parametrize("gaps", [0.0, 0.5])
@pytest.mark.parametrize("largest", [LARGEST_SUM, (1 << 16) - 1])
def test_epochs(simulate, gaps, largest):
    gradients, labels = material(60, seed=1)
    losses = sample_losses(gradients, labels).reshape(5, 12).sum(axis=1)
    expected = np.minimum(losses, largest)
    limit = int(np.sort(expected)[2])
    found, low = run(simulate, gradients, labels, 12, limit, gaps, largest)
    if largest == LARGEST_SUM:
        assert found == expected.tolist()
        assert low == (expected <= limit).tolist()
        assert sum(low) == 3
    else:
        assert found[0] == largest < losses[0]
