"""Normal form and integers of the sentence classifier, compared with PyTorch's classifier."""

import shutil

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.stream.transformer_model import padded
from fabtune.golden.train.text.classifier import TextClassifier, default_folder
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.transformer.float_model import run_float

QUESTIONS = ("How far is it from Denver to Aspen ?", "What is an atom ?", "Who was the first man on the moon ?")


@pytest.fixture(scope="module")
def tiny(tiny_transformer):
    return sentence_model(tiny_transformer, ("it was bad", "it was good"))


def floats(model, sentences):
    """Logits of the normal form in float64."""
    tokens = model.tokens(sentences)
    there = tokens >= 0
    return run_float(model.network, model.parameters, model.words[tokens[there]], tuple(there.sum(axis=1)))[-1]


def integers(model, sentences, base):
    """Logits of the integers, without deltas."""
    own = model.integers(base)
    narrow = Narrower()
    logits = own.forward(model.tokens(sentences), np.zeros((own.words, 31), np.int64), narrow)
    assert not narrow.saturations
    return Q8_16.to_float(logits)


def test_logits_are_those_of_the_classifier(tiny, classifier, task):
    with torch.no_grad():
        expected = classifier(classifier.tokens(task.test.sentences)).numpy()
    np.testing.assert_allclose(floats(tiny, task.test.sentences), expected, atol=1e-4)
    np.testing.assert_allclose(integers(tiny, task.test.sentences, "18-bit"), expected, atol=0.02)


def test_a_head_of_prompts_is_not_nf4(tiny):
    head = (tiny.network.titles.index("head"), "weight")
    fine, coarse = tiny.base("18-bit"), tiny.base("nf4")
    assert (fine.integers[head] == coarse.integers[head]).all()
    assert fine.errors[head] == coarse.errors[head] < 1e-4
    others = [name for name in coarse.errors if name != head]
    assert len(others) == 2 * 6
    assert all(0.05 < coarse.errors[name] < 0.15 for name in others)
    assert all(fine.errors[name] < 1e-3 for name in others)


def test_minilm_in_integers(task):
    """Logits are cosines times 20; NF4 weights put them a tenth off."""
    prompts = ("How far is it?", "What is it?", "Who is it?")
    model, reference = sentence_model(default_folder(), prompts), TextClassifier(default_folder(), prompts)
    with torch.no_grad():
        expected = reference(reference.tokens(QUESTIONS)).numpy()
    fine, coarse = (integers(model, QUESTIONS, base) for base in ("18-bit", "nf4"))
    assert np.abs(fine - expected).max() < 0.05
    assert 0.1 < np.abs(coarse - expected).max() < 2.5


def test_a_sentence_of_one_token_and_of_the_longest_length(tiny):
    short, longest, longer = tiny.tokens(["film"]), tiny.tokens(["film " * 128]), tiny.tokens(["film " * 129, "plot"])
    assert (short.shape, longest.shape, longer.shape) == ((1, 1), (1, 128), (2, 128))
    assert (longer[0] == longest[0]).all()
    assert [tiny.cut(some) for some in (["film"], ["film " * 128], ["film " * 129, "plot"])] == [0, 0, 1]
    for sentences in (["film"], ["film " * 128], ["film " * 300, "plot"]):
        np.testing.assert_allclose(integers(tiny, sentences, "18-bit"), floats(tiny, sentences), atol=0.02)
    with pytest.raises(UserError, match="'' has no token"):
        tiny.tokens(["film", ""])


def test_fewer_positions_than_tokens(tmp_path, tiny_transformer):
    from transformers import BertConfig, BertModel

    shutil.copytree(tiny_transformer, tmp_path, dirs_exist_ok=True)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=16, max_position_embeddings=10, **sizes)).save_pretrained(tmp_path)
    model = sentence_model(tmp_path, ("it was bad", "it was good"))
    assert model.most_tokens == 10
    assert model.tokens(["film " * 20]).shape == (1, 10)


def test_a_tokenizer_that_is_missing(tmp_path, tiny_transformer):
    """The library substitutes one to which all words are unknown."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(tiny_transformer / name, tmp_path)
    for read in (sentence_model, TextClassifier):
        with pytest.raises(UserError, match=r"no tokenizer \(vocab.txt or tokenizer.json\): save it"):
            read(tmp_path, ("it was bad", "it was good"))


def test_weights_that_are_no_numbers_are_refused(tmp_path, tiny_transformer):
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny_transformer, tmp_path, dirs_exist_ok=True)
    path, name = tmp_path / "model.safetensors", "encoder.layer.1.attention.self.key.weight"
    state = load_file(path)
    state[name][3, 2] = float("nan")
    save_file(state, path)
    with pytest.raises(UserError, match=r"layer\.1\.attention\.self\.key\.weight has NaN or infinity"):
        sentence_model(tmp_path, ("it was bad", "it was good"))


def test_padding_is_behind_the_tokens():
    assert padded([np.array([3]), np.array([1, 2])]).tolist() == [[3, -1], [1, 2]]


def test_padding_inside_a_sentence_is_refused_where_positions_leave_it_out(tmp_path, tiny_transformer):
    from transformers import RobertaConfig, RobertaModel

    shutil.copytree(tiny_transformer, tmp_path, dirs_exist_ok=True)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    # the tokenizer's unknown word has RoBERTa's padding number
    RobertaModel(RobertaConfig(vocab_size=16, max_position_embeddings=20, **sizes)).save_pretrained(tmp_path)
    model = sentence_model(tmp_path, ("it was bad", "it was good"))
    assert model.tokens(["the film"]).shape == (1, 2)
    with pytest.raises(UserError, match=r"a text has the token 1, padding, which .* leaves out"):
        model.tokens(["the great film"])
    with pytest.raises(UserError, match="a text has the token 1, padding"):
        sentence_model(tmp_path, ("it was awful", "it was good"))
