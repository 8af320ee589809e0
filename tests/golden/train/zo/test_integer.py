"""Zeroth-order job from floats: it learns, and step by step equals the job."""

import numpy as np
import pytest

from fabtune.golden.datasets.tasks import task_of
from fabtune.golden.fixed import q8_16_of_bytes
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.models.text import preset
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.train.pretrain import Pretraining, pretrained
from fabtune.golden.train.zo.integer import IntegerZerothOrder
from fabtune.golden.train.zo.schedule import Schedule


@pytest.fixture(scope="module")
def start():
    """Drifted digits, and a network trained upright."""
    task, network = task_of("digits", drift="camera", seed=0), preset("digits")
    module, _ = pretrained(network, task.pretrain, Pretraining(40, seed=0))
    return task, network, folded(network, module)


def run_of(start, steps, source, **more):
    task, network, parameters = start
    return IntegerZerothOrder(network, parameters, source, task.tune, Schedule(steps, 20), 5e-4, **more)


@pytest.mark.parametrize("settings", [("otf8",), ("pool", "pool.size=4064", "pool.p=32")])
def test_it_learns(start, settings):
    preset_name, *rest = settings
    run = run_of(start, 300, build(PezoSpec, rest, preset_name))
    test = start[0].test
    before = run.accuracy(test)
    numbers = []
    steps = run.run(lambda number, step: numbers.append(number))
    assert numbers == list(range(1, 301))
    assert len({step.position for step in steps}) == min(300, run.job.source.period)
    assert before < 0.5
    assert run.accuracy(test) > before + 0.1
    assert run.saturations == 0
    losses = [-np.log(np.maximum(step.probabilities, 1) / 4096).mean() for step in steps]
    assert np.mean(losses[-50:]) < np.mean(losses[:50])


def test_steps_are_the_jobs_on_the_schedules_batches(start):
    run, other = (run_of(start, 30, PezoSpec(), position=77) for _ in range(2))
    tune = start[0].tune
    assert [len(order.indices) for order in run.orders[:25]] == [20] * 25
    for mine, order in zip(run.run(), other.orders, strict=True):
        assert np.array_equal(order.labels, tune.labels[order.indices])
        (theirs,) = other.job.step(q8_16_of_bytes(tune.inputs[order.indices]), tune.labels[order.indices], order.rate)
        assert (mine.position, mine.coefficient, mine.difference) == (
            theirs.position,
            theirs.coefficient,
            theirs.difference,
        )
    assert np.array_equal(run.job.total, other.job.total)


def test_a_short_batch_has_the_rate_of_its_mean(start):
    task, network, parameters = start
    run = IntegerZerothOrder(network, parameters, PezoSpec(), task.tune[:50], Schedule(3, 20), 5e-4)
    assert [len(order.indices) for order in run.orders] == [20, 20, 10]
    assert abs(run.orders[2].rate - 2 * run.orders[0].rate) <= 1
