"""Zeroth-order tuning of a transformer on samples: what its integers are, and what of it is kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fabtune.golden.datasets.digits import digits
from fabtune.golden.errors import UserError
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer_tuning import core_settings
from fabtune.golden.train.zo.sample_tuning import SampleTuning
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.train.zo.transformer_tuning import Selection
from fabtune.golden.transformer.presets import vit_digits
from fabtune.golden.transformer.sample_model import SampleModule

SETTINGS = core_settings(ZoSettings(rate=2e-4, eps=2.0**-10, schedule=Schedule(4, 5)))


@pytest.fixture(scope="module")
def task():
    whole = digits(0)
    return replace(whole, tune=whole.tune[:20], test=whole.test[:30])


def test_integers_give_the_logits_of_the_module(task):
    model = vit_digits(1)
    tuning = SampleTuning(model, task, SETTINGS, Selection(base="18-bit"))
    with torch.no_grad():
        expected = SampleModule(model)(torch.from_numpy(task.test.values())).numpy()
    found = tuning.logits(tuning.test.inputs) / 2**16
    assert np.abs(found - expected).max() < 2e-3
    facts = tuning.facts()
    assert facts["logits_error"] < 1e-3
    assert facts["loss_base"] == pytest.approx(facts["loss_float"], abs=1e-3)
    assert set(facts["errors"]) == {name for name in model.tensor_names.values() if name.endswith("weight")}
    assert not facts["saturated"]


def test_a_run_moves_all_tensors_and_repeats(task):
    model = vit_digits(1)
    before = SampleTuning(model, task, SETTINGS).tensors()
    runs = [SampleTuning(model, task, SETTINGS) for _ in range(2)]
    results = [one.run() for one in runs]
    assert results[0].losses == results[1].losses
    assert results[0].tensors.keys() == SampleModule(model).state_dict().keys()
    assert results[0].trained_parameters == sum(one.size for one in model.parameters.values())
    changed = {name for name, one in results[0].tensors.items() if (one != before[name]).any()}
    assert len(changed) > 30
    delta = runs[0].delta()
    assert delta.total.shape == (255, 31)
    assert (delta.total == runs[0].job.total).all()
    assert delta.order.base == "nf4"


def test_samples_of_another_shape_are_refused(task):
    wide = replace(task, tune=replace(task.tune, inputs=task.tune.inputs.reshape(-1, 1, 4, 16)))
    with pytest.raises(UserError, match=r"vit-digits takes samples of \(1, 8, 8\), not of \(1, 4, 16\)"):
        SampleTuning(vit_digits(), wide, SETTINGS)
