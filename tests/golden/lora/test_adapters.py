"""Adapter arithmetic compared with PyTorch's gradients, and the integer learning rate."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16, Narrower, matmul
from fabtune.golden.lora.adapters import MAXIMUM_RATE, NOISE_BITS, Adapters, AdapterSizes, rate_of
from fabtune.golden.nn.softmax import SoftmaxTables

SHAPE = AdapterSizes((7, 5, 3), 4, 2)


def problem(seed=0, samples=9):
    rng = np.random.default_rng(seed)
    adapters = Adapters(SHAPE, Q4_12.from_float(rng.normal(0, 0.5, SHAPE.parameters)))
    inputs = [Q8_16.from_float(rng.normal(0, 1, (samples, width))) for width in SHAPE.inputs]
    base = Q8_16.from_float(rng.normal(0, 1, (samples, SHAPE.classes)))
    return adapters, inputs, base, rng.integers(0, SHAPE.classes, samples)


def test_forward_and_update_follow_pytorchs_gradients():
    adapters, inputs, base, labels = problem()
    pairs = [(torch.tensor(Q4_12.to_float(a)), torch.tensor(Q4_12.to_float(b))) for a, b in adapters.pairs()]
    for pair in pairs:
        for one in pair:
            one.requires_grad_(True)
    x = [torch.tensor(Q8_16.to_float(one)) for one in inputs]
    logits = torch.tensor(Q8_16.to_float(base)) + sum(one @ a.T @ b.T for one, (a, b) in zip(x, pairs, strict=True))
    functional.cross_entropy(logits, torch.tensor(labels), reduction="sum").backward()

    narrow = Narrower()
    h = adapters.hidden(inputs, matmul, narrow)
    found = adapters.logits(base, h, matmul, narrow)
    assert np.abs(Q8_16.to_float(found) - logits.detach().numpy()).max() < 1e-4
    rate = rate_of(0.5, 9)
    before = adapters.flat.copy()
    adapters.update(inputs, h, SoftmaxTables().gradient(found, labels), rate, matmul, narrow)
    expected = Adapters.of(
        SHAPE,
        [(a - rate / 2**20 * a.grad).detach().numpy() for a, _ in pairs],
        [(b - rate / 2**20 * b.grad).detach().numpy() for _, b in pairs],
    )
    moved = np.abs(adapters.flat - before)
    assert moved.max() > 100
    # softmax tables are off by 0.5 %, gradients by 2**-13 per sample
    assert np.abs(adapters.flat - expected.flat).max() <= 0.01 * moved.max() + 2
    assert narrow.saturations == 0


def test_update_uses_b_as_it_was():
    adapters, inputs, base, labels = problem(1)
    twin = Adapters(SHAPE, adapters.flat)
    twin.b[:] = 0
    for one in (adapters, twin):
        h = one.hidden(inputs, matmul, Narrower())
        one.update(inputs, h, SoftmaxTables().gradient(base, labels), 1000, matmul, Narrower())
    # B = 0 blocks the gradient of A
    assert np.array_equal(twin.a[0], problem(1)[0].a[0])
    assert not np.array_equal(adapters.a[0], problem(1)[0].a[0])
    assert np.array_equal(twin.b, adapters.b - problem(1)[0].b)


def test_noise_decides_the_rounding():
    adapters, inputs, base, labels = problem(2)
    outcomes = []
    for noise in (0, (1 << NOISE_BITS) - 1):
        one = Adapters(SHAPE, adapters.flat)
        h = one.hidden(inputs, matmul, Narrower())
        constant = np.full(SHAPE.parameters, noise)
        one.update(inputs, h, SoftmaxTables().gradient(base, labels), 77, matmul, Narrower(), constant)
        outcomes.append(one.flat)
    assert set((outcomes[1] - outcomes[0]).tolist()) == {0, 1} or set((outcomes[1] - outcomes[0]).tolist()) == {1}


def test_saturated_parameters_are_counted():
    adapters, inputs, *_ = problem(3)
    adapters.flat[:] = Q4_12.maximum
    narrow = Narrower()
    h = adapters.hidden(inputs, matmul, narrow)
    clipped = narrow.saturations
    adapters.update(inputs, h, -np.full((9, 4), 4096), MAXIMUM_RATE, matmul, narrow)
    assert narrow.saturations > clipped
    assert adapters.flat.max() == Q4_12.maximum


def test_views_are_the_vector():
    adapters = problem()[0]
    adapters.a[1][:] = 5
    adapters.b[:] = -3
    assert (adapters.flat[14:24] == 5).all()
    assert (adapters.flat[30:] == -3).all()
    again = Adapters.of(SHAPE, *zip(*adapters.pairs(), strict=True))
    assert np.array_equal(again.flat, adapters.flat)


def test_rate_of():
    assert rate_of(0.1, 20) == 5243
    with pytest.raises(UserError, match=r"learning rate 0 with batches of 20 has no integer: take 1.91e-05 to 2.5"):
        rate_of(0, 20)
    for eta in (1e-9, 3.0, -0.1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="has no integer"):
            rate_of(eta, 20)
    with pytest.raises(UserError, match="at least 1 sample"):
        rate_of(0.1, 0)


def test_refuses_other_sizes():
    with pytest.raises(UserError, match="have 54 parameters"):
        Adapters(SHAPE, np.zeros(7))
    with pytest.raises(UserError, match="-32768 to 32767"):
        Adapters(SHAPE, np.full(SHAPE.parameters, 40000))
