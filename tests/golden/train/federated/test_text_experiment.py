"""Federations on sentences with a tiny transformer: baselines, work and uploads, cuts by name and by formula."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.train.federated.configuration import FederatedConfig, FederatedRates
from fabtune.golden.train.federated.cost_model import step_flops
from fabtune.golden.train.federated.federation import faulty
from fabtune.golden.train.federated.shards import shards
from fabtune.golden.train.federated.text_experiment import (
    TextExperiment,
    best_cut,
    cut_named,
    mean_work,
    tuned_parameters,
)
from fabtune.golden.train.text.classifier import TextClassifier
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.train.text.tasks import Texts
from fabtune.golden.train.zo.methods import integer_source_of

PROMPTS = ("it was bad", "it was good")


@pytest.fixture(scope="module")
def sentences(tiny_transformer):
    return sentence_model(tiny_transformer, PROMPTS)


@pytest.fixture(scope="module")
def texts():
    labels = np.arange(24) % 2
    made = (f"the film was {('bad', 'good')[label]} , {'very ' * (at % 4)}{('poor', 'fine')[label]}"
            for at, label in enumerate(labels))  # fmt: skip
    return Texts(tuple(made), labels)


@pytest.fixture(scope="module")
def experiment(sentences, texts, tiny_transformer):
    config = FederatedConfig(
        rounds=2, clients=4, fraction=0.5, steps=3, batch=8, rate=0.01, eps=2**-10, source=integer_source_of("otf8")
    )
    return TextExperiment(
        sentences=sentences,
        integers=sentences.integers("nf4"),
        owned=shards(texts, 4, 1.0, 0),
        test=texts,
        config=config,
        stage=cut_named(sentences.network, "head"),
        classifier=partial(TextClassifier, tiny_transformer, PROMPTS),
    )


def test_all_methods_have_about_the_same_forward_work(experiment):
    runs = experiment.runs(FederatedRates(0.01, 0.005, 0.01), faulty(0))
    assert list(runs) == ["FedSPZO", "FedZO", "DeComFL", "FedAvg, LoRA"]
    found = {name: run() for name, run in runs.items()}
    results, figures = ({name: one[at] for name, one in found.items()} for at in (0, 1))
    assert all(one.bit_identical for one in results.values())
    assert {name: one["upload_bytes_per_client_round"] for name, one in figures.items()} == {
        "FedSPZO": 36 + 3 * 17,
        "FedZO": 36 + figures["FedZO"]["steps"] * 2,
        "DeComFL": 36 + figures["DeComFL"]["steps"] * 6,
        "FedAvg, LoRA": experiment.lora_upload_bytes,
    }
    assert experiment.lora_upload_bytes == 4 * 2 * 2 * 4 * 32
    assert [figures[name]["rate"] for name in runs] == [0.01, 0.005, 0.025, 0.01]
    # DeComFL takes one of two steps with nearly equal loss: 2.4 would be as valid
    work = {name: one["forward_flops"] / figures["FedSPZO"]["forward_flops"] for name, one in figures.items()}
    assert work["FedZO"] == pytest.approx(1, abs=0.1)
    assert 0.6 < work["DeComFL"] < 1.3
    # so few words share no row: equal number of rows at any cut
    assert figures["FedSPZO"]["delta_bytes"] == figures["FedZO"]["delta_bytes"] == 47 * 31 * 4
    assert "predicted_saving" in figures["FedSPZO"]
    assert "predicted_saving" not in figures["FedZO"]


def test_work_is_that_of_the_sentences(sentences, experiment):
    """By hand: hidden 16, FFN 32, two layers, five norms, a two-class head; without words and functions."""
    for words, tokens in ((["film"], 1), (["it was good", "the film"], 2.5)):
        layer = 2 * tokens * (4 * 16 * 16 + 2 * 16 * 32)
        pairs = np.mean([len(one.split()) ** 2 for one in words])
        expected = 2 * (layer + 2 * 2 * pairs * 16) + 5 * 2 * 2 * 16 * tokens + 2 * 16 * 2
        assert mean_work(sentences, words).sum() == pytest.approx(expected, abs=8)
    flops = experiment.flops(experiment.stage)
    assert flops[1] == 2 * 16 * 2
    assert step_flops(flops, experiment.config) == 4 * (flops[0] + 8 * flops[1])


def test_cuts_by_name_and_by_formula(sentences, experiment, texts):
    network, integers = sentences.network, experiment.integers
    assert cut_named(network, "head") == len(network.operations) - 1
    last = cut_named(network, "encoder.layer.1")
    assert network.titles[last] == "encoder.layer.1.attention.self.query"
    assert last in network.cuts
    with pytest.raises(UserError, match=r"no operation of that name; it can be cut before .*, unit, head, \.\.\."):
        cut_named(network, "encoder.layer.2")
    parameters = sum(map(np.prod, network.parameter_shapes.values()))
    first, second = tuned_parameters(integers, cut_named(network, "head"))
    assert (first + second, second) == (parameters, 2 * 16 + 2)
    # the head runs per sentence, everything before it per token
    work = mean_work(sentences, texts.sentences)
    assert best_cut(integers, work, 8) == cut_named(network, "head")
    # a free second segment becomes as large as possible
    free = np.zeros(len(network.operations), np.int64)
    free[0] = 1
    assert best_cut(integers, free, 8) == network.cuts[0]
    alone = replace(integers, tuned=lambda name: name[0] == cut_named(network, "head"))
    with pytest.raises(UserError, match="no cut has tuned parameters on both sides"):
        best_cut(alone, work, 8)
