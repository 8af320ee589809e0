"""Projected gradients of MiniLM on TREC questions: integers compared with float64; prints the settings."""

import os
from pathlib import Path

import numpy as np
import pytest

from fabtune.golden.fixed import Q8_16, Format
from fabtune.golden.importers.transformers.language_models.folder import read_folder
from fabtune.golden.stream.forward import is_weight, weight_formats
from fabtune.golden.stream.transformer_model import padded
from fabtune.golden.train.text.classifier import LOGIT_SCALE, default_folder
from fabtune.golden.train.text.tasks import text_task
from fabtune.golden.transformer.float_model import run_float

from ...own_transformers import integer_model, slopes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("FABTUNE_DATA" not in os.environ, reason="needs the real data: set FABTUNE_DATA"),
]
BATCHES, DIRECTIONS, SAMPLES = 3, 4, 16


@pytest.fixture(scope="module")
def classifier():
    """MiniLM with a head from prompts, its tensors and embeddings, and labelled token batches."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(default_folder())
    task = text_task("trec", Path(os.environ["FABTUNE_DATA"]), 16, 13)

    def tokens(sentences):
        return padded([np.array(tokenizer(one)["input_ids"]) for one in sentences])

    found = read_folder(default_folder())
    made = found.builder
    unit = made.unit_length("unit", made.pool("mean", found.last, "mean"))
    body, parameters = made.finish()
    prompts = tokens(task.prompts)
    there = prompts >= 0
    rows = run_float(body, parameters, found.rows(prompts[there]), tuple(there.sum(axis=1)))[unit]
    made.linear("head", unit, LOGIT_SCALE * rows, np.zeros(len(rows)))
    batches = []
    for seed in range(BATCHES):
        chosen = task.tune[np.random.default_rng(seed).choice(len(task.tune), SAMPLES, replace=False)]
        batches.append((tokens(chosen.sentences), chosen.labels))
    return made.finish(), Q8_16.from_float(found.words), batches


@pytest.mark.parametrize(
    ("weight", "most"), [(None, 0.02), (Format(4, 14), 0.04), (Format(4, 12), 0.08)], ids=["finest", "Q4.14", "Q4.12"]
)
def test_slopes_of_minilm(classifier, weight, most, capsys):
    (network, parameters), embeddings, batches = classifier
    formats = weight_formats(parameters)
    if weight:
        formats = {name: weight for name in parameters if is_weight(name)}
    model = integer_model((network, parameters), formats, embeddings=embeddings)
    pairs = [
        slopes(model, tokens, labels, 1000 * direction + 77 * number)
        for number, (tokens, labels) in enumerate(batches)
        for direction in range(DIRECTIONS)
    ]
    found, expected = np.array(pairs).T
    error = np.sqrt(np.mean((found - expected) ** 2) / np.mean(np.square(expected)))
    with capsys.disabled():
        print(f"\nweights {weight or 'each in its finest format'}: slopes {100 * error:.2f} % off")
    assert error < most
