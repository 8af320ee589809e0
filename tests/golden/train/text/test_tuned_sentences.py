"""A run on sentences as a file, a delta and a whole folder: the same integers, and equal labels in `transformers`."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fabtune.golden.errors import UserError
from fabtune.golden.models.checkpoint import save_state
from fabtune.golden.train.sparse import random_mask
from fabtune.golden.train.text.integer_tuning import SentenceTuning, folder_state
from fabtune.golden.train.text.label_words import Wording
from fabtune.golden.train.text.model_card import recipe
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.train.text.tuned_folder import write_folder
from fabtune.golden.train.text.tuned_sentences import SentenceRun, run_metadata
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.train.zo.transformer_tuning import Selection

SETTINGS = ZoSettings("pezo-otf", 3e-2, 2.0**-10, Schedule(4, 16), engine="golden")
PAGE = (Path(__file__).parents[4] / "docs" / "your-language-model.md").read_text()
WORDS = Wording("{0} It was", (" bad", " great"))


@pytest.fixture
def tuned(task, tmp_path):
    """Run a tuning; returns it, and its run read from a file and from a delta."""

    def made(folder, mask=None, wording=None, **selection):
        sentences = sentence_model(folder, task.prompts, wording).calibrated(task.tune.sentences)
        settings = replace(SETTINGS, method="sparse-zo") if mask else SETTINGS
        tuning = SentenceTuning(sentences, task, settings, Selection(**selection), mask)
        tuning.run()
        metadata = run_metadata(tuning.sentences, tuning.selection.base)
        save_state(tmp_path / "run.safetensors", tuning.tensors_in(folder_state(folder)), metadata, True)
        tuning.delta().save(tmp_path / "delta.safetensors", True)
        return tuning, *(SentenceRun.load(tmp_path / f"{name}.safetensors") for name in ("run", "delta"))

    return made


def labels_of(code, texts):
    """Labels from the recipe of a model card."""
    names = {}
    exec(code, names)
    return [names["label_of"](text) for text in texts.sentences]


def check_integers(tuning, folder, *runs):
    """Every run's file gives the integers of the tuning, bit for bit."""
    expected = tuning.parameters()
    for run in runs:
        found = run.tuned(folder)
        assert found.integers.keys() == expected.keys()
        assert all((found.integers[name] == values).all() for name, values in expected.items())
        assert (found.logits(tuning.task.test.sentences) * 2**16 == tuning.logits(tuning.test.inputs)).all()


def test_prompts_of_an_encoder(tuned, tiny_transformer, task, tmp_path):
    tuning, run, delta = tuned(tiny_transformer)
    check_integers(tuning, tiny_transformer, run, delta)
    found = run.tuned(tiny_transformer)
    write_folder(found, tiny_transformer, tmp_path / "out", {"data": "csv:/home/me/mine", "folder": "/home/me"})
    golden = found.logits(task.test.sentences)
    assert labels_of(recipe(found.sentences, str(tmp_path / "out")), task.test) == golden.argmax(axis=1).tolist()
    assert np.abs(found.float_logits(task.test.sentences) - golden).max() < 0.02
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| 0 | `it was bad` |" in card
    assert recipe(found.sentences, ".") in card
    assert recipe(found.sentences, "TUNED") in PAGE
    assert not any("/home" in (tmp_path / "out" / name).read_text() for name in ("README.md", "fabtune.json"))
    # the folder is a model from which to start again
    again = sentence_model(tmp_path / "out", task.prompts)
    floats = {again.names[name]: values for name, values in again.parameters.items()}
    for name, values in found.floats.items():
        if not found.sentences.names[name].startswith("head."):
            assert np.abs(floats[found.sentences.names[name]] - values).max() < 1e-6


@pytest.mark.parametrize("tied", [pytest.param(False, marks=pytest.mark.slow), True])
def test_label_words_of_a_decoder(tuned, tiny_decoder, tied_decoder, task, tmp_path, tied):
    folder = tied_decoder if tied else tiny_decoder
    tuning, run, delta = tuned(folder, wording=WORDS)
    check_integers(tuning, folder, run, delta)
    found = delta.tuned(folder)
    write_folder(found, folder, tmp_path / "out", {})
    golden = found.logits(task.test.sentences)
    assert labels_of(recipe(found.sentences, str(tmp_path / "out")), task.test) == golden.argmax(axis=1).tolist()
    assert recipe(found.sentences, "TUNED") in PAGE
    head = load_file(tmp_path / "out" / "model.safetensors")["lm_head.weight"]
    before = found.sentences.words if tied else load_file(folder / "model.safetensors")["lm_head.weight"]
    changed = {*np.flatnonzero((head != before).any(axis=1))}
    assert changed == {*WORDS.word_tokens(found.sentences.tokenizer)}
    assert not (tmp_path / "out" / "head.safetensors").exists()


@pytest.mark.slow
def test_sensitive_weights_and_upper_layers(tuned, tiny_transformer, classifier):
    for choice in ({"mask": random_mask(classifier, 0.02)}, {"from_layer": 1, "base": "18-bit"}, {"tuned": "norms"}):
        tuning, *runs = tuned(tiny_transformer, **choice)
        check_integers(tuning, tiny_transformer, *runs)


def test_what_is_refused(tuned, tiny_transformer, tiny_decoder, tmp_path):
    _, run, _ = tuned(tiny_transformer)
    with pytest.raises(UserError, match="started from another model"):
        run.tuned(tiny_decoder)
    for name, values in (("head.bias", np.zeros(3, np.float32)), ("head.bias", np.full(2, np.nan)), ("x", np.zeros(2))):
        with pytest.raises(UserError, match="is a damaged run file"):
            replace(run, tensors={name: values}).tuned(tiny_transformer)
    for changes in ({"matrices": "2-bit"}, {"activations": "[1]"}, {"activations": '{"1": "Q"}'}):
        with pytest.raises(UserError, match="is a damaged run file"):
            replace(run, metadata=run.metadata | changes).tuned(tiny_transformer)
    found, mine = run.tuned(tiny_transformer), tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    for target, message in ((mine, "is not replaced"), (tiny_transformer, "that fabtune has written")):
        with pytest.raises(UserError, match=message):
            write_folder(found, tiny_transformer, target, {}, force=True)
    write_folder(found, tiny_transformer, tmp_path / "out", {})
    with pytest.raises(UserError, match="exists: choose another folder, or --force"):
        write_folder(found, tiny_transformer, tmp_path / "out", {})
    write_folder(found, tiny_transformer, tmp_path / "out", {}, force=True)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]


def test_an_interrupted_folder_leaves_nothing(tuned, tiny_transformer, tmp_path, monkeypatch):
    _, run, _ = tuned(tiny_transformer)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("fabtune.golden.train.text.tuned_folder.model_card", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_folder(run.tuned(tiny_transformer), tiny_transformer, tmp_path / "new" / "out", {})
    assert sorted(tmp_path.iterdir()) == before
