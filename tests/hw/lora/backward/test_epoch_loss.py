"""The epoch loss in RTL against golden's: every probability, several epochs, gaps, and its largest sum."""

import numpy as np
import pytest

from fabtune.golden.lora.epoch_loss import LARGEST_SUM, correct_samples, sample_losses
from fabtune.hw.lora.backward.epoch_loss import EpochLoss

CLASSES = 3


def run(simulate, gradients, samples, gaps=0.0, largest=LARGEST_SUM, validation=None):
    """Loss of each epoch, or that and its validation's loss and correct samples; and the losses that decide."""
    dut = EpochLoss(largest, validation is not None)
    steps = (dut.step,) if validation is None else (dut.step, dut.validation.step, dut.validation.correct_step)
    found, decided = [[] for _ in steps], []
    rng = np.random.default_rng(4)

    async def bench(ctx):
        ctx.set(dut.samples, samples)
        if validation is not None:
            ctx.set(dut.validation.samples, validation)
            await ctx.tick()
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        queue = [(int(value), at == CLASSES - 1) for row in gradients for at, value in enumerate(row)]
        totals = [0] * len(steps)
        for cycle in range(10 * len(queue) + 20):
            given = bool(queue) and rng.random() >= gaps
            ctx.set(dut.gradients.valid, given)
            # what is there without `valid` does not matter
            value, last = queue.pop(0) if given else (-1, True)
            ctx.set(dut.gradients.gradient, value)
            ctx.set(dut.gradients.last, last)
            for at, port in enumerate(steps):
                if step := ctx.get(port):
                    totals[at] = (totals[at] + step) % (1 << 32)
                    found[at].append(totals[at])
            if ctx.get(dut.complete):
                decided.append(ctx.get(dut.loss))
            await ctx.tick()
            if not queue and cycle > 8 * len(gradients) + 20:
                break

    simulate(dut, bench)
    return (found[0] if validation is None else found), decided


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
    found, decided = run(simulate, gradients, 1)
    # an epoch of one sample: a step of 0 cannot be told from none
    changes = expected[np.flatnonzero(np.diff(expected, prepend=0))]
    assert found == changes.tolist()
    assert decided == expected.tolist()


@pytest.mark.parametrize("gaps", [0.0, 0.5])
@pytest.mark.parametrize("largest", [LARGEST_SUM, (1 << 16) - 1])
def test_epochs(simulate, gaps, largest):
    gradients, labels = material(60, seed=1)
    losses = sample_losses(gradients, labels).reshape(5, 12).sum(axis=1)
    expected = np.minimum(losses, largest)
    found, decided = run(simulate, gradients, 12, gaps, largest)
    assert decided == expected.tolist()
    if largest == LARGEST_SUM:
        assert found == expected.tolist()
    else:
        assert found[0] == largest < losses[0]


@pytest.mark.parametrize("gaps", [0.0, 0.5])
@pytest.mark.parametrize(("samples", "validation"), [(7, 5), (1, 11), (11, 1), (12, 0)])
def test_validations(simulate, gaps, samples, validation):
    together = samples + validation
    gradients, labels = material(5 * together, seed=2)
    gradients[np.arange(5 * together), labels] = np.random.default_rng(3).integers(-4096, 0, 5 * together)
    losses = sample_losses(gradients, labels).reshape(5, together)
    behind = np.arange(5 * together).reshape(5, together)[:, samples:]
    correct = [correct_samples(gradients[some], labels[some]) for some in behind]
    expected = [losses[:, :samples].sum(axis=1), losses[:, samples:].sum(axis=1), np.array(correct)]
    found, decided = run(simulate, gradients, samples, gaps, validation=validation)
    # a step of 0 cannot be told from none
    assert found == [one[np.flatnonzero(np.diff(one, prepend=0))].tolist() for one in expected]
    assert decided == expected[1 if validation else 0].tolist()
    assert validation < 2 or len({*correct}) > 1


def test_only_the_largest_probability_is_correct(simulate):
    # of the label, and of the others: less, as much, more; certain; and nothing at all
    gradients = np.array(
        [[-2000, 1000, 1000], [2095, -2000, 5], [2096, 5, -2000], [-1999, 0, 2098], [0, 0, 0], [0, -4096, 0]]
    )
    found, _ = run(simulate, gradients, 1, validation=5)
    assert correct_samples(gradients[1:], np.array([1, 2, 0, 1, 1])) == found[2][0] == 2
