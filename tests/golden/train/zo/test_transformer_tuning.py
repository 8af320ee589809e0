"""A transformer's job compared with the PyTorch optimiser's integers, step by step; its run and deltas."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Narrower
from fabtune.golden.nn.softmax import SoftmaxTables
from fabtune.golden.stream.forward import is_weight
from fabtune.golden.stream.forward_cache import CachedModel
from fabtune.golden.train.zo.delta_file import Delta
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.train.zo.transformer_tuning import LabelledInputs, TransformerTuning, with_delta
from fabtune.golden.train.zo.weights import IntegerWeights
from fabtune.golden.transformer.layers import layer_starts
from fabtune.golden.zo.coefficient import coefficient_of
from fabtune.golden.zo.deltas import DELTA
from fabtune.golden.zo.loss_difference import loss_differences
from fabtune.golden.zo.split import Split

from ....own_transformers import decoder, encoder, integer_model, sentences

SETTINGS = ZoSettings("pezo-otf", 0.004, 2.0**-10, Schedule(10, 8), engine="golden")


def names_of(model):
    titles = model.transformer.network.titles
    return {name: f"{titles[name[0]]}.{name[1]}" for name in model.frozen}


def tuning_of(model, settings=SETTINGS, **more):
    tokens, _, labels = sentences(count=20)
    samples = LabelledInputs(tokens, labels)
    return TransformerTuning(model, samples, samples, settings, names_of(model), **more)


def encoder_model(**settings):
    return integer_model(encoder(), embeddings=sentences(count=20)[1], **settings)


@pytest.mark.parametrize(("made", "sensitive"), [(encoder, False), (decoder, False), (encoder, True)])
@pytest.mark.parametrize("steps", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_the_job_is_the_optimiser_s_integers(made, sensitive, steps):
    """32-bit integer weights in word order, moved by PyTorch, reproduce all projected gradients and deltas."""
    model = integer_model(made(), embeddings=sentences(count=20)[1])
    if sensitive:
        places = {name: np.arange(0, one.size, 9) for name, one in model.frozen.items() if is_weight(name)}
        model = replace(model, sensitive=places, tuned=places.__contains__)
    tuning = tuning_of(model, replace(SETTINGS, schedule=Schedule(steps, 8)))
    words = (model.words, model.order.width)
    assert words[1] == (32 if sensitive else 512)
    weights = IntegerWeights([torch.zeros(words[0] * words[1])], tuning.source, DELTA)
    job, softmax, tokens = tuning.job, SoftmaxTables(), tuning.tune.inputs
    eps = job.eps * weights.resolution

    def logits(batch):
        return model.forward(batch, weights.integers[0].numpy().reshape(words).astype(np.int64), Narrower())

    moved = 0
    for order in tuning.orders:
        batch, position = tokens[order.indices], job.position
        (slope,) = job.step(batch, order.labels, order.rate)
        sides = []
        for amount in (eps, -2 * eps):
            weights.add(position, amount)
            sides.append(logits(batch))
        weights.add(position, eps)
        differences, _ = loss_differences(*sides, order.labels, softmax)
        coefficient = coefficient_of(int(differences.sum()), order.rate, job.settings.shift, Narrower())
        assert (slope.difference, slope.coefficient) == (differences.sum(), coefficient)
        weights.add(position, coefficient * weights.resolution)
        moved += bool(coefficient)
    assert moved > steps / 2
    table = job.parts[0].deltas.perturbation.spread(job.total, words[0])
    spread = table[:, np.arange(words[1]) % table.shape[1]]
    assert (weights.integers[0].numpy().reshape(words) == spread).all()
    assert (logits(tokens) == job.logits(tokens)).all()


def test_a_run_learns_and_its_delta_is_the_run(tmp_path):
    model = encoder_model()
    tuning = tuning_of(model, replace(SETTINGS, schedule=Schedule(60, 20), rate=0.008))
    result = tuning.run()
    assert result.accuracy_after > result.accuracy_before + 0.2
    assert result.trained_parameters == sum(one.size for one in model.frozen.values())
    assert result.saturations == 0
    path = tmp_path / "d.safetensors"
    tuning.delta({"seed": "0"}).save(path)
    again = Delta.load(path)
    assert again.total.nbytes == 31_620
    assert again.order == tuning.delta().order
    assert again.described()["order"] == "tiles of 32 x 16, base nf4"
    moved = with_delta(encoder_model(), again, names_of(model))
    for name, values in tuning.parameters().items():
        assert (moved[name] == values).all()
    assert any((moved[name] != one).any() for name, one in model.frozen.items())
    with pytest.raises(UserError, match="the delta of a transformer, which is added to the model's folder"):
        again.applied({})


def test_a_run_that_is_cut_has_a_delta_of_two_parts(tmp_path):
    cut = encoder()[0].cuts[2]
    tuning = tuning_of(encoder_model(), replace(SETTINGS, split=Split(cut, 2, 2), schedule=Schedule(3, 8)))
    tuning.run()
    assert tuning.job.total.any(axis=(1, 2)).all()
    assert (tuning.logits(tuning.test.inputs) == tuning.job.logits(tuning.test.inputs)).all()
    path = tmp_path / "d.safetensors"
    tuning.delta().save(path)
    again = Delta.load(path)
    assert (again.order.cut, again.total.nbytes) == (cut, 2 * 31_620)
    assert again.described()["order"] == f"tiles of 32 x 16, base nf4, cut before operation {cut}"
    moved = with_delta(encoder_model(), again, names_of(encoder_model()))
    for name, values in tuning.parameters().items():
        assert (moved[name] == values).all()
    above = encoder_model(tuned=lambda name: name[0] >= cut)
    with pytest.raises(UserError, match="a model with a forward cache is not cut"):
        tuning_of(above, replace(SETTINGS, split=Split(cut)), cached=CachedModel(above, cut))


def test_a_delta_of_sensitive_values(tmp_path):
    name = encoder()[0].titles.index("1.up"), "weight"
    places = {name: np.array([0, 7, 300])}
    tuning = tuning_of(encoder_model(tuned=places.__contains__, sensitive=places))
    assert tuning.run().trained_parameters == 3
    path = tmp_path / "d.safetensors"
    tuning.delta().save(path)
    again = Delta.load(path)
    assert again.described()["parameters"] == 3
    moved = with_delta(encoder_model(), again, names_of(tuning.model))
    assert (moved[name] == tuning.parameters()[name]).all()
    other = replace(again.order, sensitive=(("1.up.weight", (0, 7, 301)),))
    with pytest.raises(UserError, match="deltas of different order"):
        again.plus(replace(again, order=other))
    for wrong in (("1.up.weight", (0, 960)), ("head.weight", (0,))):
        with pytest.raises(UserError, match="which are none of its parameters"):
            replace(again, order=replace(again.order, sensitive=(wrong,)))
    with pytest.raises(UserError, match=r"words of 32 values, not of 512, as first versions wrote: tune again"):
        replace(again, source=replace(again.source, lanes=512))
    with pytest.raises(UserError, match=r"places of 1\.up\.weight are not ascending"):
        replace(again.order, sensitive=(("1.up.weight", (7, 7)),))


def test_a_delta_of_another_model_base_or_order_is_refused():
    tuning = tuning_of(encoder_model())
    delta, names = tuning.delta(), tuning.names
    other = integer_model(encoder(seed=2), embeddings=sentences(count=20)[1])
    words = replace(encoder_model(), embeddings=sentences(seed=9)[1])
    for model in (other, words):
        with pytest.raises(UserError, match="this is another base: its integers"):
            with_delta(model, delta, names)
    with pytest.raises(UserError, match="the delta's tensors are in another order"):
        with_delta(encoder_model(), replace(delta, parameters=delta.parameters[::-1]), names)
    with pytest.raises(UserError, match="a delta of an array of 16 x 16 nf4 has lanes"):
        replace(delta, order=replace(delta.order, lanes=16))
    with pytest.raises(UserError, match="none of a transformer's tiles"):
        with_delta(encoder_model(), replace(delta, order=None), names)


def test_a_cached_run_is_the_run():
    start = layer_starts(encoder()[0])[1]
    model = encoder_model(tuned=lambda name: name[0] >= start)
    plain, cached = tuning_of(model), tuning_of(model, cached=CachedModel(model, start))
    assert plain.run().losses == cached.run().losses
    assert (plain.job.total == cached.job.total).all()
    assert plain.forward_work == 1
    assert 0.4 < cached.forward_work < 0.55


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"eps": 2.0**-7}, "eps = 0.0078125: a transformer's slope is true up to"),
        ({"eps": 1e-3}, "eps = 0.001: a core's is a power of two"),
        ({"queries": 2}, "queries = 2"),
        ({"rate": 1e12}, "a learning rate of"),
    ],
)
def test_settings_that_are_refused(changes, says):
    with pytest.raises(UserError, match=says):
        tuning_of(encoder_model(), replace(SETTINGS, **changes))
