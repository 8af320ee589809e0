"""Slopes of MiniLM on questions of TREC, in integers, against the derivative in float64; the settings are printed."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fabtune.golden.fixed import Q8_16, Format
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.forward import IntegerTransformer, is_weight, weight_formats
from fabtune.golden.stream.transformer_model import TransformerModel, padded
from fabtune.golden.train.text.classifier import LOGIT_SCALE, default_folder
from fabtune.golden.train.text.tasks import text_task
from fabtune.golden.transformer.float_model import run_float
from fabtune.golden.transformer.importers.folder import read_folder
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.loss_difference import DIFFERENCE_FRACTION
from fabtune.golden.zo.step_settings import StepSettings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("FABTUNE_DATA" not in os.environ, reason="needs the real data: set FABTUNE_DATA"),
]
BATCHES, DIRECTIONS, SAMPLES, EPS = 3, 4, 16, 2.0**-10


@pytest.fixture(scope="module")
def classifier():
    """MiniLM with a head of prompts, its tensors and embeddings, and batches of tokens with labels."""
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
    transformer, source = IntegerTransformer(network, formats), build(PezoSpec, [], "otf8")
    integers, _ = transformer.convert(parameters)
    model = TransformerModel(transformer, integers, embeddings, times=len(source.base))
    base = {name: transformer.format_of(name).to_float(one) for name, one in integers.items()}
    table, found, expected = PerturbationTable(source), [], []
    for number, (tokens, labels) in enumerate(batches):
        there = tokens >= 0
        rows, lengths = Q8_16.to_float(embeddings[tokens[there]]), tuple(there.sum(axis=1))
        for direction in range(DIRECTIONS):
            position = 1000 * direction + 77 * number
            (slope,) = ZerothOrderJob(model, source, StepSettings(), position).step(tokens, labels, 0)
            found.append(slope.difference / 2.0**DIFFERENCE_FRACTION / SAMPLES / (2 * EPS))
            spread = table.spread(table.at(position), model.words)[:, np.arange(model.order.width) % source.width]
            along, losses = model.order.split(spread), []
            for step in (1e-5, -1e-5):
                moved = {name: base[name] + step * 2.0**-table.fraction * along[name] for name in base}
                logits = torch.from_numpy(run_float(network, moved, rows, lengths)[-1])
                losses.append(cross_entropy(logits, torch.from_numpy(labels)).item())
            expected.append((losses[0] - losses[1]) / 2e-5)
    error = np.sqrt(np.mean((np.array(found) - expected) ** 2) / np.mean(np.square(expected)))
    with capsys.disabled():
        print(f"\nweights {weight or 'each in its finest format'}: slopes {100 * error:.2f} % off")
    assert error < most
