"""Forward cache of a transformer: bit-identical to the uncached job, skipped work, refusals."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Narrower
from fabtune.golden.stream.forward import IntegerTransformer
from fabtune.golden.stream.forward_cache import CachedModel
from fabtune.golden.transformer.layers import layer_starts
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.step_settings import StepSettings

from ...own_transformers import SOURCE, decoder, encoder, integer_model, sentences, vision


def upper(made, start, **settings):
    """Model with tensors tuned from an operation on."""
    return integer_model(made, tuned=lambda name: name[0] >= start, **settings)


def jobs(models, samples, labels, steps=6):
    """Job of each model after the same steps, on alternating halves of the samples."""
    found = []
    rates, settings = StepSettings().with_rates([0.01] * steps, [len(labels) // 2] * steps, PerturbationTable(SOURCE))
    for model in models:
        job = ZerothOrderJob(model, SOURCE, settings)
        for step, rate in enumerate(rates):
            half = np.arange(len(labels))[step % 2 :: 2]
            job.step(samples[half], labels[half], rate)
        found.append(job)
    return found


@pytest.mark.parametrize("made", [encoder, decoder])
def test_an_exact_cache_changes_no_bit(made):
    tokens, embeddings, labels = sentences()
    start = layer_starts(made()[0])[1]
    model = upper(made(), start, embeddings=embeddings)
    cached = CachedModel(model, start)
    one, other = jobs([model, cached], tokens, labels)
    assert one.total.any()
    assert (one.total == other.total).all()
    assert (one.logits(tokens) == other.logits(tokens)).all()
    assert cached.samples == len(tokens)
    assert cached.size == 3 * 24 * (tokens >= 0).sum()


def test_samples_of_rows_are_cached_too():
    network, _ = made = vision(layers=2)
    start = layer_starts(network)[1]
    model = upper(made, start)
    samples = np.random.default_rng(1).integers(-(1 << 16), 1 << 16, (6, 10, 12))
    one, other = jobs([model, CachedModel(model, start)], samples, np.arange(6) % 3)
    assert (one.total == other.total).all()


def test_a_head_alone_reads_one_row_a_sentence():
    tokens, embeddings, labels = sentences()
    network, _ = made = encoder()
    start = network.titles.index("head")
    model = upper(made, start, embeddings=embeddings)
    cached = CachedModel(model, start)
    one, other = jobs([model, cached], tokens, labels)
    assert (one.total == other.total).all()
    assert cached.size == 3 * 24 * len(tokens)


def test_lower_operations_are_skipped(monkeypatch):
    tokens, embeddings, _ = sentences()
    network, _ = made = encoder()
    start = layer_starts(network)[1]
    cached = CachedModel(upper(made, start, embeddings=embeddings), start)
    offsets, ran, run = np.zeros((cached.words, 31), np.int64), [], IntegerTransformer.run

    def noted(self, integers, rows, lengths, product, operations):
        ran.append((operations, len(lengths)))
        return run(self, integers, rows, lengths, product, operations)

    monkeypatch.setattr(IntegerTransformer, "run", noted)
    for batch in (tokens[:5], tokens[:5], tokens[3:8]):
        cached.forward(batch, offsets, Narrower())
    whole = len(network.operations)
    above, below = range(start, whole), range(start)
    assert ran == [(below, 5), (above, 5), (above, 5), (below, 3), (above, 5)]


def test_a_cache_in_nf4_is_near_and_small():
    tokens, embeddings, labels = sentences()
    start = layer_starts(encoder()[0])[1]
    model = upper(encoder(), start, embeddings=embeddings)
    exact, coarse = CachedModel(model, start), CachedModel(model, start, "nf4")
    offsets = np.zeros((model.words, 31), np.int64)
    near, far = (one.forward(tokens, offsets, Narrower()) for one in (exact, coarse))
    error = np.sqrt(np.mean((near - far) ** 2) / np.mean(near**2))
    assert 0.001 < error < 0.2
    assert coarse.size == (tokens >= 0).sum() * (24 // 2 + 3)
    assert jobs([coarse], tokens, labels)[0].total.any()


def test_what_has_no_cache():
    network, _ = made = encoder()
    start = layer_starts(network)[1]
    with pytest.raises(UserError, match=r"positions is tuned, and the cache is before 1\.q"):
        CachedModel(integer_model(made), start)
    with pytest.raises(UserError, match="cache = 'lz4' is not one of exact, nf4"):
        CachedModel(upper(made, start), start, "lz4")
    with pytest.raises(UserError, match="no place for a cut"):
        CachedModel(upper(made, start + 1), start + 1)
    with pytest.raises(UserError, match="cut = 3: a model with a forward cache is not cut"):
        CachedModel(upper(made, start), start).parts(3)
    start = layer_starts(decoder()[0])[1]
    with pytest.raises(UserError, match=r"gives Q11\.16, which has no NF4 codes: take the exact cache"):
        CachedModel(upper(decoder(), start), start, "nf4")
