"""Warnings at the end of a tuning: statements on held-out samples, and advice."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fabtune.golden.importers.layers.network import network_of
from fabtune.golden.train.adapters.tune import AdapterSettings, AdapterTuning
from fabtune.golden.train.metrics import cross_entropy
from fabtune.golden.train.zo.finetune import FineTuning, ZoSettings
from fabtune.golden.train.zo.integer import IntegerTuning, core_settings
from fabtune.golden.train.zo.network_objective import NetworkObjective
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.scripts.tuning.tuning import warnings_of

from ...golden.train.tuned.test_network import TASKS
from ...own_modules import drawn, perceptron


def tuning_of(before, after, loss, held_out, weights=None, model="mine.py:Net"):
    return SimpleNamespace(
        result=SimpleNamespace(accuracy_before=before, accuracy_after=after),
        origin=SimpleNamespace(warning=None, epochs=None, start="mine.py:Net"),
        start=SimpleNamespace(weights=weights, model=model),
        job=SimpleNamespace(held_out_loss=lambda: held_out),
        held_out=np.arange(1000) % 10,
        advice=[],
        remedy="lower --rate",
        loss=loss,
        classes=10,
    )


def test_a_high_loss_of_one_batch_is_no_warning():
    assert warnings_of(tuning_of(0.95, 0.94, 3.1, 0.2)) == []
    assert warnings_of(tuning_of(0.95, 0.96, 3.1, 3.1)) == []
    (warning,) = warnings_of(tuning_of(0.95, 0.4, 3.1, 4.2))
    assert warning == (
        "fine-tuning spoilt the network: 95.0% right before and 40.0% after, at a held-out loss of 4.2, where guessing "
        "has 2.3: lower --rate"
    )


@pytest.mark.parametrize(
    ("weights", "model", "remedy"),
    [
        (None, "mine.py:Net", "if it is not trained, give --weights, or --pretrain"),
        (Path("mine.pt"), "mine.py:Net", "prepare the samples as they were for its training: scale, mean, order of"),
        (None, "mine.onnx", "prepare the samples as they were for its training"),
    ],
)
def test_a_start_at_chance_asks_for_what_was_not_given(weights, model, remedy):
    (warning,) = warnings_of(tuning_of(0.1, 0.5, 1.0, 1.0, weights, model))
    assert f"is no more than by guessing: {remedy}" in warning


@pytest.mark.slow
def test_held_out_losses_are_those_of_the_logits():
    module, task = drawn(perceptron), TASKS[64,]
    network = network_of(module, (64,), "mine")
    adapters = AdapterTuning(network, module, task, AdapterSettings("ft-last", "golden", epochs=1))
    expected = cross_entropy(adapters.engine.logits(task.test), task.test.labels)
    assert adapters.held_out_loss() == pytest.approx(expected)
    settings = core_settings(ZoSettings("pezo-otf", 1e-2, 2.0**-10, Schedule(1, 8)))
    integers = IntegerTuning(network, module, task, settings, 16, 2)
    assert integers.held_out_loss() == pytest.approx(expected, rel=1e-2)
    floats = FineTuning(NetworkObjective(module, task), ZoSettings("mezo", 1e-2, 1e-3, Schedule(1, 8)))
    assert floats.held_out_loss() == pytest.approx(expected, rel=1e-2)
