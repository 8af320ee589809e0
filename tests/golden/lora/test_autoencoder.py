"""Integer job with mean squared error: updates compared with PyTorch's gradient, losses, refusals."""

import numpy as np
import pytest
import torch

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16
from fabtune.golden.lora.adapters import RATE_FRACTION, Adapters, AdapterSizes, rate_of
from fabtune.golden.lora.forward_cache import ForwardCache, WordCodec
from fabtune.golden.lora.job import Job
from fabtune.golden.lora.mseloss import rate_scale
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters

OUTPUTS, BATCH, RANK = 40, 20, 3
NETWORK = network_from(f"{OUTPUTS} fc8 relu fc{OUTPUTS}")
SHAPE = AdapterSizes((OUTPUTS, 8), OUTPUTS, RANK)
LABELS, INDICES = np.zeros(BATCH, np.int64), np.arange(BATCH)


def job(eta, start=0.2):
    """A job before its first batch, and samples with three hidden values."""
    rng = np.random.default_rng(0)
    frozen = random_parameters(NETWORK, rng, gain=0.5)
    adapters = Adapters(SHAPE, Q4_12.from_float(rng.normal(0, start, SHAPE.parameters)))
    rate, cache = rate_of(eta * rate_scale(OUTPUTS), BATCH), ForwardCache(NETWORK, WordCodec(NETWORK), BATCH)
    inputs = Q8_16.from_float(rng.normal(0, 1, (BATCH, 3)) @ rng.normal(0, 0.6, (3, OUTPUTS)))
    return Job(NETWORK, frozen, adapters, rate, cache, loss="mse"), inputs


def tensor(integers, target):
    return torch.from_numpy(target.to_float(integers))


def test_an_update_is_pytorchs():
    one, inputs = job(eta=0.5)
    x = tensor(inputs, Q8_16)
    layers = [(tensor(own.weight, Q4_12), tensor(own.bias, Q4_12)) for own in one.frozen]
    pairs = [[tensor(matrix, Q4_12).requires_grad_() for matrix in pair] for pair in one.adapters.pairs()]
    hidden = torch.relu(torch.nn.functional.linear(x, *layers[0]))
    logits = torch.nn.functional.linear(hidden, *layers[1])
    for read, (a, b) in zip((x, hidden), pairs, strict=True):
        logits = logits + read @ a.T @ b.T
    torch.nn.functional.mse_loss(logits, x).backward()
    found = one.batch(inputs, LABELS, INDICES)
    assert np.abs(Q8_16.to_float(found.logits) - logits.detach().numpy()).max() < 1e-3
    assert one.saturations == 0
    # the rate is rounded as well
    eta = one.rate * BATCH / 2**RATE_FRACTION / rate_scale(OUTPUTS)
    for pair, integers in zip(pairs, one.adapters.pairs(), strict=True):
        for before, after in zip(pair, integers, strict=True):
            wanted = (before - eta * before.grad).detach().numpy()
            assert np.abs(Q4_12.to_float(after) - wanted).max() < 3 * 2.0**-12
            assert np.abs((eta * before.grad).numpy()).max() > 20 * 2.0**-12


def test_batches_lower_the_error():
    one, inputs = job(eta=0.5, start=0.1)
    errors = []
    for _ in range(40):
        errors.append(np.mean(np.square(Q8_16.to_float(one.batch(inputs, LABELS, INDICES).logits - inputs))))
    assert errors[-1] < 0.2 * errors[0]
    assert np.mean(np.square(Q8_16.to_float(one.logits(inputs) - inputs))) < errors[-1]


def test_a_label_is_refused():
    one, inputs = job(eta=0.5)
    with pytest.raises(UserError, match="is outside 0 to 0"):
        one.batch(inputs, LABELS + 1, INDICES)


REFUSED = {
    "has 3 outputs for 20 inputs; an autoencoder has as many": {"network": "20 fc3"},
    "no adapter of 20 fc6 relu fc20 reads the sample": {"network": "20 fc6 relu fc20", "last_only": True},
    "loss = 'l1' is not one of cross_entropy, mse": {"network": "20 fc20", "loss": "l1"},
    "20 fc257 has 257 classes; the core takes at most 256": {"network": "20 fc257", "loss": "cross_entropy"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_core_that_cannot_be_is_refused(message):
    with pytest.raises(UserError, match=message):
        InstantftSpec(**({"loss": "mse"} | REFUSED[message]))


def test_wide_outputs_are_taken():
    assert InstantftSpec(network="20 fc256", lanes=16).labels == 256
    assert InstantftSpec(network="640 fc8 relu fc640", loss="mse").labels == 1
