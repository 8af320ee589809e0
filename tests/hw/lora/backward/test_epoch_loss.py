"""Epoch loss in RTL compared with golden: every probability, several epochs, gaps, and the largest sum."""

import numpy as np
import pytest

from fabtune.golden.lora.early_stop import LARGEST_SUM, correct_samples, sample_losses
from fabtune.hw.lora.backward.epoch_loss import EpochLoss

from ...play import play_interface

CLASSES = 3


def run(gradients, samples, stall=0.0, largest=LARGEST_SUM, validation=None):
    """Loss of each epoch, with a validation also its loss and correct samples; and the deciding losses."""
    steps = ["step"] if validation is None else ["step", "validation.step", "validation.correct_step"]

    async def body(bench):
        bench.set(samples=samples)
        if validation is not None:
            bench.set({"validation.samples": validation})
            await bench.tick()
        await bench.pulse("start")
        for row in gradients:
            for at, value in enumerate(row):
                await bench.gap()
                await bench.pulse("gradients.valid", gradient=value, last=at == CLASSES - 1)
                # values without `valid` do not matter
                bench.set({"gradients.gradient": -1, "gradients.last": 1})
        await bench.tick(20)

    dut = EpochLoss(largest, validation is not None)
    watch = {"complete": "loss"} | dict.fromkeys(steps)
    seen = play_interface(dut, watch=watch, body=body, stall=stall)
    found = [(np.cumsum(seen.words(step)) % (1 << 32)).tolist() for step in steps]
    return (found[0] if validation is None else found), seen.words("complete")


def material(count, seed=0):
    """Gradients with any probability at the label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    gradients = rng.integers(0, 2000, (count, CLASSES))
    gradients[np.arange(count), labels] = rng.permutation(np.resize(np.arange(4097), count)) - 4096
    return gradients, labels


@pytest.mark.slow
def test_every_probability():
    gradients, labels = material(4097)
    expected = sample_losses(gradients, labels)
    found, decided = run(gradients, 1)
    # an epoch of one sample: a step of 0 equals no step
    changes = expected[np.flatnonzero(np.diff(expected, prepend=0))]
    assert found == changes.tolist()
    assert decided == expected.tolist()


@pytest.mark.parametrize("gaps", [0.0, 0.5])
@pytest.mark.parametrize("largest", [LARGEST_SUM, (1 << 16) - 1])
def test_epochs(gaps, largest):
    gradients, labels = material(60, seed=1)
    losses = sample_losses(gradients, labels).reshape(5, 12).sum(axis=1)
    expected = np.minimum(losses, largest)
    found, decided = run(gradients, 12, gaps, largest)
    assert decided == expected.tolist()
    if largest == LARGEST_SUM:
        assert found == expected.tolist()
    else:
        assert found[0] == largest < losses[0]


@pytest.mark.parametrize("gaps", [0.0, 0.5])
@pytest.mark.parametrize(("samples", "validation"), [(7, 5), (1, 11), (11, 1), (12, 0)])
def test_validations(gaps, samples, validation):
    together = samples + validation
    gradients, labels = material(5 * together, seed=2)
    gradients[np.arange(5 * together), labels] = np.random.default_rng(3).integers(-4096, 0, 5 * together)
    losses = sample_losses(gradients, labels).reshape(5, together)
    behind = np.arange(5 * together).reshape(5, together)[:, samples:]
    correct = [correct_samples(gradients[some], labels[some]) for some in behind]
    expected = [losses[:, :samples].sum(axis=1), losses[:, samples:].sum(axis=1), np.array(correct)]
    found, decided = run(gradients, samples, gaps, validation=validation)
    # a step of 0 equals no step
    assert found == [one[np.flatnonzero(np.diff(one, prepend=0))].tolist() for one in expected]
    assert decided == expected[1 if validation else 0].tolist()
    assert validation < 2 or len({*correct}) > 1


def test_only_the_largest_probability_is_correct():
    # probability of the label below, equal to and above the others'; 1; and 0
    gradients = np.array(
        [[-2000, 1000, 1000], [2095, -2000, 5], [2096, 5, -2000], [-1999, 0, 2098], [0, 0, 0], [0, -4096, 0]]
    )
    found, _ = run(gradients, 1, validation=5)
    assert correct_samples(gradients[1:], np.array([1, 2, 0, 1, 1])) == found[2][0] == 2
