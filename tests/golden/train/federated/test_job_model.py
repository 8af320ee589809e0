"""Federations of integer jobs on transformers: bit-equal server and clients, compared with replayed messages."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from fabtune.golden.datasets.dataset import Samples
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.forward import IntegerTransformer, weight_formats
from fabtune.golden.stream.transformer_model import TransformerModel, padded
from fabtune.golden.train.federated.client import Client, ClientTask
from fabtune.golden.train.federated.configuration import FederatedConfig
from fabtune.golden.train.federated.federation import faulty, federate
from fabtune.golden.train.federated.job_model import JobModel
from fabtune.golden.train.federated.server import Server
from fabtune.golden.train.federated.shards import shards
from fabtune.golden.train.zo.methods import integer_source_of
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings

from ....own_transformers import decoder, encoder

VOCABULARY = 30


def tokens_and_labels(count, seed=1):
    rng = np.random.default_rng(seed)
    tokens = padded([rng.integers(0, VOCABULARY, rng.integers(2, 9)) for _ in range(count)])
    return Samples(tokens, (tokens.max(axis=1) * 5 // VOCABULARY).clip(0, 4))


def integers_of(made, times=255):
    network, parameters = made
    transformer = IntegerTransformer(network, weight_formats(parameters))
    words = np.random.default_rng(5).normal(0, 1, (VOCABULARY, network.features))
    return TransformerModel(transformer, transformer.convert(parameters)[0], Q8_16.from_float(words), times=times)


def config_of(generator="otf8", **settings):
    start = FederatedConfig(
        rounds=3, clients=4, fraction=0.75, steps=2, batch=5, rate=0.01, eps=2**-10, first=2, second=3,
        source=integer_source_of(generator),
    )  # fmt: skip
    return replace(start, **settings)


def job_model(made=None, cut="head", generator="otf8", **settings):
    made = made or encoder(layers=1)
    own = integers_of(made, len(build(PezoSpec, [], generator).base))
    at = made[0].titles.index(cut) if cut else 0
    return JobModel(own, at, config_of(generator, **settings), lambda samples: samples.inputs)


@pytest.mark.parametrize(("cut", "generator"), [("head", "otf8"), ("0.norm", "pool"), (None, "otf8")])
def test_three_rounds_with_faults_end_in_the_same_bits(cut, generator):
    model = job_model(cut=cut, generator=generator, second=3 if cut else 1)
    owned = shards(tokens_and_labels(24), 4, 1.0, 0)
    before = model.integers()
    outcome = federate(model, owned, tokens_and_labels(12, 2), faulty(0))
    assert outcome.bit_identical
    assert (len(outcome.refused), len(outcome.missing)) == (3, 1)
    assert not torch.equal(before, model.integers())
    config = model.config
    assert outcome.curve[-1].upload_bytes == 3 * 3 * (36 + 2 * (1 + config.first * config.second))
    first, second = outcome.curve[-1].evaluations
    assert (first > 0, first) == ((True, second // 3) if cut else (False, 0))


def test_a_decoder_learns_in_a_federation():
    model = job_model(decoder(layers=1), rounds=3, steps=6, rate=0.03, batch=8)
    samples = tokens_and_labels(32)
    outcome = federate(model, shards(samples, 4, float("inf"), 0), samples)
    assert outcome.bit_identical
    assert outcome.curve[-1].loss < outcome.curve[0].loss - 0.05


def test_the_server_s_tables_are_the_average_of_the_messages_replayed():
    """Each client's message is replayed in a separate job; weighted by shares, ties to even."""
    model = job_model()
    owned = shards(tokens_and_labels(24), 4, 1.0, 0)
    server = Server(model.copy(), [len(one) for one in owned])
    shares, replayed = [], []
    for client, task in server.round.tasks.items():
        message = Client(model.copy(), owned[client]).train(task)
        server.receive(message.to_bytes(), "x")
        settings = StepSettings(split=Split(model.job.settings.split.cut, 2, 3), scalars=True)
        job = ZerothOrderJob(model.model, model.config.source.spec, settings, task.position % 7905)
        for step in message.steps:
            job.move(step.coefficients)
        shares.append(message.share)
        replayed.append(job.total)
        # the client evaluates the weights after the deltas
        own = replace(model.model).parts(model.job.settings.split.cut)[1].parameters(job.offsets()[1])
        head = np.concatenate([own[name].reshape(-1) for name in own if name[0] == model.job.settings.split.cut])
        assert server.rebuilt(client)[-len(head) :].tolist() == head.tolist()
    server.close()
    exact = sum(share * total.astype(object) for share, total in zip(shares, replayed, strict=True))
    expected = np.vectorize(lambda one: round(Fraction(one, sum(shares))), otypes=[np.int64])(exact)
    assert np.array_equal(server.model.job.total, expected)
    assert expected.any()


def test_a_message_is_independent_of_the_process_and_of_batches_before():
    model, samples = job_model(batch=24), tokens_and_labels(24)
    task = ClientTask(0, 2, 10**15 + 3)
    messages = []
    for missed in (0, 2):
        client = Client(model.copy(), samples)
        for number in range(missed):
            client.train(ClientTask(number, 2, 5))
            client.synchronise(client.model.total(([], [])))
        messages.append(client.train(task).to_bytes())
    assert messages[0] == messages[1]


def test_what_a_job_does_not_take_is_refused():
    made = encoder(layers=1)
    with pytest.raises(UserError, match=r"0.attention is no place for a cut"):
        job_model(made, "0.attention")
    with pytest.raises(UserError, match=r"eps = 0.001: a core's is a power of two"):
        job_model(made, eps=1e-3)
    with pytest.raises(UserError, match=r"eps = 0.0078125: a transformer's slope is true up to 0.00390625"):
        job_model(made, eps=2**-7)
    with pytest.raises(UserError, match="P1 = 17 is not in 1 to 16"):
        job_model(made, first=17)
    with pytest.raises(UserError, match="P2 = 3 without a second part"):
        job_model(made, None)
    model = job_model(made, rate=1e5)
    inputs, labels = model.prepared(tokens_and_labels(4))
    with pytest.raises(UserError, match="lower the rate"):
        model.step(inputs, labels, 0)
