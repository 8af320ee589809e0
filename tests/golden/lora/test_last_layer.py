"""The last layer tuned as adapters, compared value by value with tuning its weights and biases."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from fabtune.golden.lora.adapters import added, last_layer_sizes, untuned_layer
from fabtune.golden.lora.job import Job
from fabtune.golden.models.network import deployed
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.golden.nn.softmax import SoftmaxTables

NETWORK = deployed(network_from("9 fc7 relu fc5"))
RATE, SAMPLES = 30_000, 12


def rounded(value, bits):
    low = floor(value)
    rest = value - low
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2)
    return min(max(low + up, -(1 << (bits - 1))), (1 << (bits - 1)) - 1)


def plain(frozen, inputs, labels, batches, biases_alone):
    """Train the additions to weights and biases, in Python integers."""
    weight, bias = [[0] * 7 for _ in range(5)], [0] * 5
    hidden = [
        [
            max(0, rounded(Fraction(int(w @ x) + (int(b) << 16), 1 << 12), 24))
            for w, b in zip(frozen[0].weight, frozen[0].bias, strict=True)
        ]
        for x in inputs
    ]
    for batch in batches:
        steps, bias_steps = [[0] * 7 for _ in range(5)], [0] * 5
        for sample in batch:
            x = hidden[sample]
            last = frozen[1]
            logits = []
            for c in range(5):
                base = sum(int(w) * v for w, v in zip(last.weight[c], x, strict=True)) + (int(last.bias[c]) << 16)
                own = sum(w * v for w, v in zip(weight[c], x, strict=True)) + (bias[c] << 16)
                total = rounded(Fraction(base, 1 << 12), 24) + rounded(Fraction(own, 1 << 12), 24)
                logits.append(min(max(total, -(1 << 23)), (1 << 23) - 1))
            g = SoftmaxTables().gradient(np.array([logits]), np.array([labels[sample]]))[0].tolist()
            for c in range(5):
                bias_steps[c] += g[c] << 16
                for i in range(7):
                    steps[c][i] += g[c] * x[i]
        for c in range(5):
            bias[c] = rounded(bias[c] - Fraction(rounded(Fraction(bias_steps[c], 1 << 12), 27) * RATE, 1 << 24), 16)
            for i in range(0 if biases_alone else 7):
                mean = rounded(Fraction(steps[c][i], 1 << 12), 27)
                weight[c][i] = rounded(weight[c][i] - Fraction(mean * RATE, 1 << 24), 16)
    return weight, bias


@pytest.mark.parametrize("rank", [1, 2, 4, 5])
@pytest.mark.parametrize("tuned", ["layer", "biases"])
def test_is_the_layer_tuned_itself(tuned, rank):
    rng = np.random.default_rng(rank)
    frozen = random_parameters(NETWORK, rng)
    inputs, labels = rng.integers(-90_000, 90_000, (SAMPLES, 9)), rng.integers(0, 5, SAMPLES)
    sizes = last_layer_sizes(NETWORK.stages[-1], tuned, rank)
    job = Job(NETWORK, frozen, untuned_layer(sizes), RATE)
    batches = np.split(rng.permutation(np.resize(np.arange(SAMPLES), 3 * SAMPLES)), [5, 10, 17, 30])
    b = job.adapters.b.copy()
    for batch in batches:
        job.batch(inputs[batch], labels[batch], batch)
    weight, bias = added(job.adapters)
    expected = plain(frozen, inputs, labels, batches, tuned == "biases")
    assert bias.tolist() == expected[1]
    assert weight.tolist() == (expected[0] if tuned == "layer" else [[]] * 5)
    assert np.abs(bias).max() > 100
    assert np.array_equal(job.adapters.b, b)
