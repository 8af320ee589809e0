"""A task that the tiny transformer can learn."""

import numpy as np
import pytest

from fabtune.golden.train.text.classifier import TextClassifier
from fabtune.golden.train.text.tasks import Texts, TextTask


@pytest.fixture
def task():
    """Label: the sentence contains the good words."""
    rng = np.random.default_rng(0)
    labels = np.arange(48) % 2
    words = [rng.choice([("bad", "poor"), ("good", "fine")][label], 1 + at % 3) for at, label in enumerate(labels)]
    sentences = tuple(f"the film was {' , very '.join(some)}" for some in words)
    return TextTask("tiny", ("it was bad", "it was good"), Texts(sentences, labels), Texts(sentences[:20], labels[:20]))


@pytest.fixture
def classifier(tiny_transformer, task):
    return TextClassifier(tiny_transformer, task.prompts)


@pytest.fixture(scope="session")
def tied_decoder(tiny_decoder, tmp_path_factory):
    """The tiny decoder with its embeddings as head, in bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("tied")
    AutoTokenizer.from_pretrained(tiny_decoder).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(tiny_decoder, tie_word_embeddings=True)
    model.tie_weights()
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder
