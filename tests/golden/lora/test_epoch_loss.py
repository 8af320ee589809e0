"""Cross entropy in integers, compared with the logarithm and with PyTorch's."""

import numpy as np
import torch
from torch.nn import functional

from fabtune.golden.fixed import Q8_16
from fabtune.golden.lora.epoch_loss import LARGEST_SUM, LOSS, sample_losses
from fabtune.golden.lora.job import Job
from fabtune.golden.lora.last_layer import last_layer_sizes, untuned_layer
from fabtune.golden.models.network import deployed
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.random_parameters import random_parameters

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
