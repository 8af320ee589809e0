"""Zeroth-order tuning of a transformer on samples: integers, and cached work."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fabtune.golden.datasets.images import digits
from fabtune.golden.errors import UserError
from fabtune.golden.train.sparse import random_mask
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer import core_settings
from fabtune.golden.train.zo.sample_tuning import SampleTuning
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.train.zo.transformer_tuning import Selection
from fabtune.golden.transformer.layers import layer_starts
from fabtune.golden.transformer.sample_model import SampleModule, vit_digits
from fabtune.golden.zo.job import ZerothOrderJob

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


def test_later_layers_alone_are_tuned_with_the_bits_of_the_whole_pass(task):
    model = vit_digits(1)
    kept = SampleTuning(model, task, SETTINGS, Selection(from_layer=1))
    start = layer_starts(model.network)[1]
    assert kept.model.order.places.keys() == {name for name in model.parameters if name[0] >= start}
    whole = ZerothOrderJob(kept.model, kept.source.spec, kept.job.settings, kept.job.position)
    for one in kept.orders:
        inputs = kept.tune.inputs[one.indices]
        (own,), (all_of_them,) = (job.step(inputs, one.labels, one.rate) for job in (kept.job, whole))
        assert (own.difference, own.coefficient) == (all_of_them.difference, all_of_them.coefficient)
    assert kept.job.total.any()
    facts = kept.facts()
    assert facts["cache"] == "exact"
    assert facts["forward_work"] < 0.6


def test_sensitive_weights_alone_are_tuned(task):
    model = vit_digits(1)
    mask = random_mask(SampleModule(model), 0.01)
    assert set(mask) == {name.removesuffix(".weight") for name in model.tensor_names.values() if "weight" in name}
    tuning = SampleTuning(model, task, SETTINGS, mask=mask)
    assert tuning.trained_parameters == sum(map(len, mask.values()))
    before, after = tuning.tensors(), tuning.run().tensors
    for layer, places in mask.items():
        moved = np.flatnonzero(before[f"{layer}.weight"] != after[f"{layer}.weight"])
        assert set(moved) <= set(places.tolist())
    assert any((before[name] != after[name]).any() for name in after)


def test_samples_of_another_shape_are_refused(task):
    wide = replace(task, tune=replace(task.tune, inputs=task.tune.inputs.reshape(-1, 1, 4, 16)))
    with pytest.raises(UserError, match=r"vit-digits takes samples of \(1, 8, 8\), not of \(1, 4, 16\)"):
        SampleTuning(vit_digits(), wide, SETTINGS)
