"""A task that the tiny transformer can learn."""

import numpy as np
import pytest
import torch

from fabtune.golden.train.text.classifier import TextClassifier
from fabtune.golden.train.text.tasks import Texts, TextTask


@pytest.fixture
def task():
    """Whether a sentence has the good words."""
    rng = np.random.default_rng(0)
    labels = np.arange(48) % 2
    words = [rng.choice([("bad", "poor"), ("good", "fine")][label], 1 + at % 3) for at, label in enumerate(labels)]
    sentences = tuple(f"the film was {' , very '.join(some)}" for some in words)
    return TextTask("tiny", ("it was bad", "it was good"), Texts(sentences, labels), Texts(sentences[:20], labels[:20]))


@pytest.fixture
def classifier(tiny_transformer, task):
    """Ready to be tuned."""
    return TextClassifier(tiny_transformer, task.prompts)


@pytest.fixture(scope="session")
def tiny_decoder(tmp_path_factory):
    """Folder of a decoder of two tiny layers with a head of its own, whose tokens are words with the blank before."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("decoder")
    words = ["<s>", "<unk>", "film", "plot", "It", "good", "bad", "the", "very", ",", ".", "film", "was", "It", "great"]
    pieces = [word if at < 10 else f" {word}" for at, word in enumerate(words)]
    pieces += [" bad", " good", " the", " very", " fine", " poor", " ,"]
    vocabulary = {piece: at for at, piece in enumerate(pieces)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[^\s.,]+| ?[.,]"), "isolated")
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", unk_token="<unk>").save_pretrained(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(pieces), **sizes)).save_pretrained(path)
    return path
