"""Integer cross entropy compared with the logarithm and with PyTorch's loss."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.lora.adapters import last_layer_sizes, untuned_layer
from fabtune.golden.lora.early_stop import LARGEST_SUM, LOSS, EarlyStop, sample_losses
from fabtune.golden.lora.job import Job
from fabtune.golden.models.network import deployed
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters

NETWORK = deployed(network_from("9 fc7 relu fc5"))


def test_every_probability_has_its_logarithm():
    probability = np.arange(4097)
    gradient = np.stack([np.zeros(4097, np.int64), probability - 4096, np.zeros(4097, np.int64)], axis=1)
    found = sample_losses(gradient, np.ones(4097, np.int64))
    assert found[0] == found[1]
    assert found[-1] == 0
    assert np.abs(found / 4096 + np.log(np.maximum(probability, 1) / 4096)).max() < 1 / 4096
    assert 0 <= found.min() <= found.max() <= LOSS.maximum


def test_an_epoch_has_pytorchs_loss():
    rng = np.random.default_rng(1)
    sizes = last_layer_sizes(NETWORK.stages[-1], "layer", 4)
    job = Job(NETWORK, random_parameters(NETWORK, rng), untuned_layer(sizes), 1)
    inputs, labels = rng.integers(-30_000, 30_000, (20, 9)), rng.integers(0, 5, 20)
    for _ in range(2):
        expected = 0.0
        for batch in np.split(np.arange(20), [8, 16]):
            logits = torch.tensor(Q8_16.to_float(job.batch(inputs[batch], labels[batch], batch).logits))
            expected += float(functional.cross_entropy(logits, torch.tensor(labels[batch]), reduction="sum"))
        # softmax errs by up to 0.6 %
        assert abs(job.end_epoch() / 4096 - expected) < 20 * 0.007
        assert expected > 20
    assert job.end_epoch() == job.epoch_loss == 0
    job._loss = 1 << 40
    assert job.end_epoch() == LARGEST_SUM


def test_a_validation_changes_nothing_that_is_learnt():
    rng = np.random.default_rng(2)
    sizes = last_layer_sizes(NETWORK.stages[-1], "layer", 4)
    parameters = random_parameters(NETWORK, rng)
    inputs, labels = rng.integers(-30_000, 30_000, (20, 9)), rng.integers(0, 5, 20)
    jobs = [Job(NETWORK, parameters, untuned_layer(sizes), 1000) for _ in range(2)]
    learnt, checked = np.split(np.arange(20), [12])
    for _ in range(2):
        for job in jobs:
            job.batch(inputs[learnt], labels[learnt], learnt)
        logits = jobs[0].validate(inputs[checked], labels[checked], checked).logits
        assert np.array_equal(logits, jobs[1].logits(inputs[checked]))
        assert jobs[0].end_epoch() == jobs[1].end_epoch()
        loss, correct = jobs[0].validation
        # argmax of the logits, and PyTorch's loss
        assert correct == np.count_nonzero(logits.argmax(axis=1) == labels[checked])
        own = torch.tensor(Q8_16.to_float(logits)), torch.tensor(labels[checked])
        assert abs(loss / 4096 - float(functional.cross_entropy(*own, reduction="sum"))) < 8 * 0.007
        assert jobs[1].validation == (0, 0)
    assert np.array_equal(jobs[0].adapters.flat, jobs[1].adapters.flat)
    assert jobs[0].batches == 2


def test_a_job_ends_at_a_limit_or_when_patience_is_over():
    losses = [9, 8, 8, 9, 7, 7, 7]
    for rule, expected in (
        (EarlyStop(), []),
        (EarlyStop(8), [1, 2, 4, 5, 6]),
        (EarlyStop(None, 1), [2, 3, 5, 6]),
        (EarlyStop(None, 2), [3, 6]),
        (EarlyStop(0, 3), []),
    ):
        assert [at for at, loss in enumerate(losses) if rule.ends(loss)] == expected
    # a loss of 0 cannot fall: the limit is then 0, as in the core
    assert [EarlyStop(None, patience).ends(0) for patience in (0, 5)] == [False, True]
    with pytest.raises(UserError, match="patience = -1"):
        EarlyStop(patience=-1)
