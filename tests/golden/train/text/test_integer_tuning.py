"""A sentence classifier tuned in integers: chosen tensors, error of the base, written folder."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fabtune.golden.errors import UserError
from fabtune.golden.train.sparse import random_mask
from fabtune.golden.train.text.integer_tuning import SentenceTuning, prompts_of, with_tuned
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.train.zo.transformer_tuning import Selection, places_of

SETTINGS = ZoSettings("pezo-otf", 3e-3, 2.0**-10, Schedule(6, 16), engine="golden")
FIRST, SECOND = "encoder.layer.0.", "encoder.layer.1."


@pytest.fixture
def tuning(tiny_transformer, task):
    def made(settings=SETTINGS, mask=None, **selection):
        sentences = sentence_model(tiny_transformer, task.prompts)
        return SentenceTuning(sentences, task, settings, Selection(**selection), mask)

    return made


def changed(run):
    """Names of the tensors moved by a run."""
    run.run()
    moved = run.parameters()
    return {run.names[name] for name, one in run.model.frozen.items() if (moved[name] != one).any()}


def test_all_tensors_are_tuned(tuning):
    run = tuning()
    assert {"head.weight", "embeddings.LayerNorm.weight", f"{FIRST}output.dense.bias"} < changed(run)
    # 16 x 16 positions are tuned, word embeddings are not
    assert run.trained_parameters == sum(one.size for one in run.model.frozen.values())
    assert run.forward_work == 1


def test_upper_layers_alone(tuning):
    run = tuning(from_layer=1)
    assert all(name.startswith((SECOND, "head")) for name in changed(run))
    assert 0.45 < run.forward_work < 0.55
    facts = run.facts()
    assert (facts["cache"], facts["cache_bytes"]) == ("exact", 3 * 16 * sum(map(len, run.cached._kept.values())))
    plain = tuning(from_layer=1)
    plain.run()
    assert (plain.job.total == run.job.total).all()
    assert tuning(from_layer=0).model.order.shapes.keys() == {
        name for name in run.names if run.names[name].startswith((FIRST, SECOND, "head"))
    }
    with pytest.raises(UserError, match="has the layers 0 to 1"):
        tuning(from_layer=2)


def test_norms_and_biases_alone(tuning):
    tuned = {tuning(tuned="norms").names[name] for name in tuning(tuned="norms").model.order.shapes}
    assert {"embeddings.LayerNorm.weight", f"{FIRST}attention.self.query.bias", "head.bias"} < tuned
    assert all("LayerNorm" in name or name.endswith("bias") for name in tuned)


def test_a_mask_s_weights_alone_beside_nf4(tuning, classifier):
    mask = random_mask(classifier, 0.02)
    run = tuning(replace(SETTINGS, method="sparse-zo"), mask)
    fine = tuning(base="18-bit")
    moved = run.parameters() if run.run() else {}
    names = {file: name for name, file in run.names.items()}
    for layer, chosen in mask.items():
        name = names[f"{layer.removeprefix('encoder.')}.weight"]
        base, own = (one.model.frozen[name].reshape(-1) for one in (run, fine))
        # the 18-bit tensors, and no others, have moved
        assert (base[chosen] == own[chosen]).all()
        assert (base != own).any() == (layer != "head")
        assert set(np.flatnonzero(moved[name].reshape(-1) != base)) <= set(chosen.tolist())
    assert run.trained_parameters == sum(map(len, mask.values()))
    with pytest.raises(UserError, match=r"the mask's layer 'encoder\.other' is none of the network's"):
        places_of({"encoder.other": torch.tensor([1])}, run.names)


def test_a_layer_is_found_behind_a_prefix_and_not_by_half_a_name():
    names = {(3, "weight"): "bert.encoder.layer.1.query.weight", (5, "weight"): "bert.encoder.layer.11.query.weight"}
    found = places_of({"encoder.encoder.layer.1.query": torch.tensor([4, 9])}, names)
    assert {name: places.tolist() for name, places in found.items()} == {(3, "weight"): [4, 9]}


def test_how_far_the_base_is_from_the_floats(tuning):
    fine, coarse = (tuning(base=base).comparison() for base in ("18-bit", "nf4"))
    assert fine["loss_float"] == coarse["loss_float"]
    assert fine["loss_base"] == pytest.approx(fine["loss_float"], abs=1e-3)
    assert 5 * fine["logits_error"] < coarse["logits_error"] < 1
    facts = tuning().facts()
    assert facts["errors"]["head.weight"] < 1e-4 < 0.05 < facts["errors"][f"{FIRST}output.dense.weight"]
    assert (facts["cut_sentences"], facts["saturated"]) == (0, {})


def test_sentences_that_are_cut_and_values_that_saturate_are_named(tiny_transformer, task):
    sentences = sentence_model(tiny_transformer, task.prompts)
    name = sentences.network.titles.index("head"), "bias"
    own = replace(sentences, parameters={**sentences.parameters, name: np.array([300.0, -300.0])})
    long = replace(task.tune, sentences=("film " * 200, *task.tune.sentences[1:]))
    run = SentenceTuning(own, replace(task, tune=long), replace(SETTINGS, schedule=Schedule(1, 48)))
    run.run()
    facts = run.facts()
    assert (facts["cut_sentences"], facts["most_tokens"]) == (1, 128)
    assert facts["saturated"] == {"head.bias": 2, "head": facts["saturated"]["head"]}


def test_the_folder_s_tensors_as_the_hardware_computed_them(tuning, tiny_transformer, task, tmp_path):
    run = tuning()
    run.run()
    delta = run.delta()
    assert prompts_of(delta) == task.prompts
    state = load_file(tiny_transformer / "model.safetensors")
    found = with_tuned(sentence_model(tiny_transformer, task.prompts), delta, state)
    assert found.keys() == {*state, "head.weight", "head.bias"}
    for name, one in state.items():
        assert found[name].shape == tuple(one.shape)
    tuned = run.tensors_in(state)
    assert len(tuned) == len(run.names)
    assert all((found[name] == one).all() for name, one in tuned.items())
    # a folder with these tensors is the tuned model
    shutil.copytree(tiny_transformer, tmp_path, dirs_exist_ok=True)
    kept = {name: torch.from_numpy(one) for name, one in found.items() if not name.startswith("head.")}
    save_file(kept, tmp_path / "model.safetensors")
    again = sentence_model(tmp_path, task.prompts)
    moved, base = run.parameters(), again.base("18-bit")
    for name, file in again.names.items():
        if not file.startswith("head."):
            expected = run.model.transformer.format_of(name).to_float(moved[name])
            assert (base.transformer.format_of(name).to_float(base.integers[name]) == expected).all()


def test_deltas_that_are_not_the_folder_s(tuning, tiny_transformer, task):
    delta = tuning().delta()
    sentences = sentence_model(tiny_transformer, ("it was poor", "it was fine"))
    with pytest.raises(UserError, match="this is another base"):
        with_tuned(sentences, delta, {})
    other = replace(delta, parameters=(("other.weight", (2, 2)), *delta.parameters[1:]))
    with pytest.raises(UserError, match=r"this is another model: .* has no other\.weight"):
        with_tuned(sentences, other, {})
    with pytest.raises(UserError, match="give --weights"):
        with_tuned(sentences, replace(delta, order=None), {})
    for run in ({}, {"prompts": "[1]"}, {"prompts": "{"}):
        with pytest.raises(UserError, match="names no prompts"):
            prompts_of(replace(delta, run=run))


def test_what_is_no_choice():
    with pytest.raises(UserError, match="--tune heads is not one of all, norms"):
        Selection(tuned="heads")
