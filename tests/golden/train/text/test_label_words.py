"""Prompts with label words: tokens, truncation, rows of the head, refusals."""

import shutil
from copy import deepcopy

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.train.text.classifier import load_tokenizer
from fabtune.golden.train.text.label_words import Wording
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.transformer.float_model import run_float

WORDS = Wording("{0} It was", (" bad", " great"))
PAIRS = Wording("{0} It was {1} .", (" bad", " great"))
SENTENCES = ("the film", "the very good plot , film , plot", "bad")


@pytest.fixture(scope="module")
def tokenizer(tiny_decoder):
    return load_tokenizer(tiny_decoder)


def texts(tokenizer, tokens):
    return ["".join(tokenizer.convert_ids_to_tokens([one for one in row if one >= 0])) for row in tokens]


def test_a_sentence_stands_in_its_template(tokenizer):
    tokens, cut = WORDS.tokens_of(tokenizer, SENTENCES[::2], 20)
    assert texts(tokenizer, tokens) == ["<s>the film It was", "<s>bad It was"]
    assert cut == 0
    pair = PAIRS.tokens_of(tokenizer, [("the film", "very good")], 20)[0]
    assert texts(tokenizer, pair) == ["<s>the film It was very good ."]
    assert WORDS.word_tokens(tokenizer) == [tokenizer.convert_tokens_to_ids(one) for one in (" bad", " great")]


def test_of_a_longer_text_the_sentence_is_cut(tokenizer):
    whole = WORDS.tokens_of(tokenizer, SENTENCES[1:2], 20)[0]
    assert whole.shape == (1, 11)
    tokens, cut = WORDS.tokens_of(tokenizer, SENTENCES, 7)
    assert cut == 1
    assert tokens[1].tolist() == [*whole[0, :5], *whole[0, -2:]]
    assert WORDS.tokens_of(tokenizer, SENTENCES[1:2], 11)[1] == 0
    # the longer sentence of a pair is cut first, then both
    for pair, most, text in (
        (("the film , the film", "good"), 8, "<s>the film , It was good ."),
        (("the film", "very good , film , plot"), 9, "<s>the film It was very good , ."),
        (("the very good film", "the very good film"), 7, "<s>the It was the very ."),
    ):
        tokens, cut = PAIRS.tokens_of(tokenizer, [pair], most)
        assert cut == 1
        assert texts(tokenizer, tokens) == [text]
    with pytest.raises(UserError, match="leaves no room for a sentence in 2 tokens"):
        WORDS.tokens_of(tokenizer, SENTENCES, 3)


def test_a_tokenizer_of_bytes_is_read_and_texts_that_it_cannot_cut_are_refused(tmp_path):
    from transformers import ByT5Tokenizer, LlamaConfig

    LlamaConfig().save_pretrained(tmp_path)
    ByT5Tokenizer().save_pretrained(tmp_path)
    tokenizer, words = load_tokenizer(tmp_path), Wording("{0} ", ("b", "g"))
    assert not tokenizer.is_fast
    assert words.word_tokens(tokenizer) == [ord("b") + 3, ord("g") + 3]
    with pytest.raises(UserError, match=r"'the film ' has more than 5 tokens.* save a fast tokenizer"):
        words._shortened(tokenizer, *words.text("the film"), 5)


def test_a_label_word_that_the_model_lacks_is_refused(tmp_path, tiny_decoder):
    folder = shutil.copytree(tiny_decoder, tmp_path / "model")
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens([" lovely"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(UserError, match=r"model has tokens from 0 to 21, not 22.*resize_token_embeddings"):
        sentence_model(folder, (), Wording("{0} It was", (" bad", " lovely")))
    with pytest.raises(UserError, match=r"model has tokens from 0 to 21, not 22"):
        sentence_model(folder, (), WORDS).tokens(["the film lovely"])


@pytest.mark.parametrize("base", ["18-bit", "nf4"])
def test_logits_are_the_library_s_of_the_next_word(tiny_decoder, base):
    from transformers import LlamaForCausalLM

    model = sentence_model(tiny_decoder, (), WORDS)
    tokens = model.tokens(SENTENCES)
    library = LlamaForCausalLM.from_pretrained(tiny_decoder).double().eval()
    with torch.no_grad():
        rows = [library(torch.from_numpy(row[None, row >= 0])).logits[0, -1].numpy() for row in tokens]
    expected = np.array(rows)[:, WORDS.word_tokens(model.tokenizer)]
    there = tokens >= 0
    found = run_float(model.network, model.parameters, model.words[tokens[there]], tuple(there.sum(axis=1)))[-1]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    own, narrow = model.integers(base), Narrower()
    integers = Q8_16.to_float(own.forward(tokens, np.zeros((own.words, 31), np.int64), narrow))
    np.testing.assert_allclose(integers, expected, atol=1e-3 if base == "18-bit" else 0.05)
    assert not narrow.saturations
    errors = model.base(base).errors
    assert errors[len(model.network.operations) - 1, "weight"] < 1e-3  # a head is not quantised to four bits


def test_models_without_a_head_of_words_are_refused(tiny_transformer):
    with pytest.raises(UserError, match="is no decoder: a head for masked words is not computed"):
        sentence_model(tiny_transformer, (), WORDS)


def test_pairs_without_label_words_are_refused(tiny_transformer, tiny_decoder):
    with pytest.raises(UserError, match="pairs of sentences take label words"):
        sentence_model(tiny_transformer, ())
    with pytest.raises(UserError, match="pairs of sentences take label words"):
        sentence_model(tiny_transformer, ("it was bad", "it was good")).tokens([("a", "b")])
    with pytest.raises(UserError, match="takes single sentences, not"):
        sentence_model(tiny_decoder, (), WORDS).tokens([("a", "b")])
    with pytest.raises(UserError, match="takes pairs of sentences, not"):
        sentence_model(tiny_decoder, (), PAIRS).tokens(["a"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((" bad", " very good"), r"label word ' very good' is 2 tokens of this tokenizer, \[' very', ' good'\]"),
        ((" bad", " ."), None),
        ((" dreadful", " superb"), "are the same token"),
    ],
)
def test_a_label_word_is_one_token(tokenizer, words, message):
    wording = Wording("{0} It was", words)
    if message is None:
        assert len(wording.word_tokens(tokenizer)) == 2
        return
    with pytest.raises(UserError, match=message):
        wording.word_tokens(tokenizer)


@pytest.mark.parametrize(
    ("template", "words", "message"),
    [
        ("It was", (" bad", " good"), r"'It was' is no template: write \{0\} where the sentence stands"),
        ("{1} It was", (" bad", " good"), "is no template"),
        ("{0} {0}", (" bad", " good"), "is no template"),
        ("{0} It was", (" bad", " bad"), "label words are two different ones at least"),
        ("{0} It was", (" bad",), "label words are two different ones at least"),
    ],
)
def test_wordings_that_are_refused(template, words, message):
    with pytest.raises(UserError, match=message):
        Wording(template, words)


def test_a_tokenizer_with_an_end_is_refused(tokenizer):
    from tokenizers import processors

    ends = deepcopy(tokenizer)
    ends.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A <s>", special_tokens=[("<s>", 0)])
    with pytest.raises(UserError, match="puts a token behind each text"):
        WORDS.tokens_of(ends, SENTENCES, 20)
