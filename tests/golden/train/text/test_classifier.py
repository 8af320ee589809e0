"""Sentence classifier: a transformer with a head from prompts."""

import builtins
import shutil

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.train.text.classifier import LOGIT_SCALE, TextClassifier, default_folder, load_tokenizer
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.train.text.tasks import Texts


def test_the_nearest_prompt_wins(classifier, task):
    with torch.no_grad():
        prompts = classifier.embed(classifier.tokens(task.prompts))
        sentences = classifier.embed(classifier.tokens(task.test.sentences))
        logits = classifier(classifier.tokens(task.test.sentences))
    torch.testing.assert_close(sentences.norm(dim=1), torch.ones(len(task.test)))
    torch.testing.assert_close(logits, LOGIT_SCALE * sentences @ prompts.T)


def test_padding_changes_nothing(classifier, task):
    losses = [classifier.loss(classifier.batch(task.tune, group)) for group in (1, 8, 64)]
    with torch.no_grad():
        logits = torch.cat([classifier(classifier.tokens([one])) for one in task.tune.sentences])
    expected = functional.cross_entropy(logits, torch.from_numpy(task.tune.labels))
    for loss in losses:
        torch.testing.assert_close(loss.detach(), expected)
    assert len(classifier.batch(task.tune, 8)) == len(task.tune)


def test_accuracy_is_the_fraction_classified_correctly(classifier, task):
    with torch.no_grad():
        chosen = classifier(classifier.tokens(task.test.sentences)).argmax(1).numpy()
    assert classifier.accuracy(task.test) == pytest.approx(np.mean(chosen == task.test.labels))
    assert classifier.accuracy(Texts(task.test.sentences, chosen)) == 1


def test_frozen_words(classifier):
    words = classifier.encoder.get_input_embeddings().weight
    classifier.freeze_words()
    assert not words.requires_grad
    assert sum(not one.requires_grad for one in classifier.parameters()) == 1


def test_products_in_bfloat16(tiny_transformer, classifier, task):
    coarse = TextClassifier(tiny_transformer, task.prompts, "bfloat16")
    assert all(one.dtype == torch.float32 for one in coarse.parameters())
    tokens = classifier.tokens(task.test.sentences)
    with torch.no_grad():
        exact, near = classifier(tokens), coarse(tokens)
    assert near.dtype == torch.float32
    assert not torch.equal(exact, near)
    torch.testing.assert_close(exact, near, atol=0.3, rtol=0)


def test_a_word_that_the_tokenizer_alone_has_is_refused(tmp_path, tiny_transformer, task):
    folder = shutil.copytree(tiny_transformer, tmp_path / "model")
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens(["great"])
    tokenizer.save_pretrained(folder)
    for made in (TextClassifier, sentence_model):
        with pytest.raises(UserError, match=r"model has tokens from 0 to 15, not 16.*resize_token_embeddings"):
            made(folder, (*task.prompts, "it was great"))


def test_a_decoder_needs_no_padding_of_its_own(tiny_decoder):
    classifier = TextClassifier(tiny_decoder, ("It was bad", "It was good , very good"))
    with torch.no_grad():
        alone = torch.cat(
            [classifier.embed(classifier.tokens([one])) for one in ("the film", "the very very good film")]
        )
        torch.testing.assert_close(classifier.embed(classifier.tokens(["the film", "the very very good film"])), alone)


def test_an_encoder_with_a_decoder_is_refused(tmp_path, tiny_transformer, task):
    from transformers import T5Config, T5Model

    shutil.copytree(tiny_transformer, tmp_path, dirs_exist_ok=True)
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    T5Model(T5Config(vocab_size=16, **sizes)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"is an encoder with a decoder \(t5\)"):
        TextClassifier(tmp_path, task.prompts)


def test_an_adapter_beside_the_model_is_refused(tmp_path, tiny_transformer, task):
    shutil.copytree(tiny_transformer, tmp_path, dirs_exist_ok=True)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match=r"adapter_config\.json makes this a model with an adapter"):
        TextClassifier(tmp_path, task.prompts)


def test_a_long_sentence_is_truncated(classifier):
    assert classifier.tokens(["film " * 1000])["input_ids"].shape == (1, 128)


@pytest.mark.parametrize(("kind", "most"), [("Bert", 12), ("Roberta", 10)])
def test_a_sentence_has_at_most_as_many_tokens_as_there_are_positions(tmp_path, tiny_transformer, task, kind, most):
    import transformers

    shutil.copytree(tiny_transformer, tmp_path, dirs_exist_ok=True)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = getattr(transformers, f"{kind}Config")(vocab_size=16, max_position_embeddings=12, **sizes)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path)
    classifier, normal_form = TextClassifier(tmp_path, task.prompts), sentence_model(tmp_path, task.prompts)
    tokens = classifier.tokens(["film " * 20])
    assert tokens["input_ids"].shape == normal_form.tokens(["film " * 20]).shape == (1, most)
    with torch.no_grad():
        assert classifier(tokens).isfinite().all()


def test_minilm_classifies_topics():
    """The real model with prompts only, untrained, compared with the majority class."""
    topics = TextClassifier(default_folder(), ("It is about animals.", "It is about cars."))
    texts = Texts(
        ("The kitten chased a mouse.", "The engine needs new spark plugs.", "Dogs bark."), np.array([0, 1, 0])
    )
    assert topics.accuracy(texts) == 1


def test_folders_without_a_model_are_refused(tmp_path, tiny_transformer):
    with pytest.raises(UserError, match=r"no config\.json"):
        TextClassifier(tmp_path, ("a", "b"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="has no tokenizer"):
        TextClassifier(tmp_path, ("a", "b"))
    with pytest.raises(UserError, match="precision = 'int8'"):
        TextClassifier(tiny_transformer, ("a", "b"), "int8")


def test_without_the_library(tiny_transformer, monkeypatch):
    there = builtins.__import__

    def absent(name, *arguments, **named):
        if name == "transformers":
            raise ImportError(name)
        return there(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UserError, match=r"pip install 'fabtune\[text\]'"):
        TextClassifier(tiny_transformer, ("a", "b"))
