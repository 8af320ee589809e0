"""Digits for a core's network, and a network pre-trained on digits before the drift.

Everything but random draws is integer arithmetic, so that a package has the same bytes on every machine. Hidden layers
stay random; the last layer learns from the hidden outputs with `golden.lora.job.Job`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...golden.datasets.dataset import Samples
from ...golden.fixed import Integers, Narrower, q8_16_of_bytes
from ...golden.lora.adapters import added, last_layer_sizes, rate_of, untuned_layer
from ...golden.lora.job import Job
from ...golden.models.layers import Linear
from ...golden.models.network import Network, deployed
from ...golden.models.text import NETWORKS
from ...golden.nn.arithmetic.forward import StageIntegers, run, side_by_side
from ...golden.nn.arithmetic.products import product_of
from ...golden.nn.arithmetic.random_parameters import random_parameters
from .task import ExampleTask

KNOWN = ("digits", "lenet5-mnist")
"""Preset networks for which the example's rates were chosen."""
TUNED, TESTED = 200, 200
DRIFT = "camera"
SIDE = 8
"""Image size in pixels."""
EPOCHS, BATCH, RATE = 10, 20, 0.1
"""Settings of the pre-training."""
GAIN = 1.5
"""Scale of the random layers: smaller activations make classes hard to separate."""


@cache
def digits_for(name: str) -> ExampleTask:
    """Make the task for a network in `KNOWN`."""
    from ...golden.datasets.tasks import task_of  # scikit-learn takes a second to import

    network, task = deployed(NETWORKS[name]), task_of("digits", drift=DRIFT)
    frozen = _pretrained(network, _fitted(task.pretrain, network))
    tune, test = _fitted(task.tune[:TUNED], network), _fitted(task.test[:TESTED], network)
    return ExampleTask("digits", name, frozen, tune, test, drawn=True)


def _fitted(samples: Samples, network: Network) -> Samples:
    """Enlarge images by an integer factor to fit the network's input, with a black border."""
    _, height, width = network.input_shape
    times = min(height, width) // SIDE
    top, left = (height - times * SIDE) // 2, (width - times * SIDE) // 2
    images = np.zeros((len(samples), *network.input_shape), np.uint8)
    enlarged = samples.inputs.repeat(times, axis=2).repeat(times, axis=3)
    images[..., top : top + times * SIDE, left : left + times * SIDE] = enlarged
    return Samples(images, samples.labels)


def _pretrained(network: Network, samples: Samples) -> list[StageIntegers]:
    """Make a network with random layers and a trained last layer."""
    rng = np.random.default_rng(1)
    last = network.stages[-1]
    *hidden, _ = random_parameters(network, rng, GAIN)
    inputs, labels = q8_16_of_bytes(samples.inputs), samples.labels
    seen = [inputs, *run(network.stages[:-1], hidden, inputs, product_of("blas"), Narrower())]
    features = side_by_side(seen, last.source).reshape(len(samples), -1)
    weight, bias = learnt_head(features, labels, last.biases, rng)
    return [*hidden, StageIntegers(weight.reshape(last.weight_shape), bias)]


def learnt_head(
    features: Integers, labels: Integers, classes: int, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Train a last layer from zeros.

    Parameters
    ----------
    features : array of int, (samples, n)
        Inputs of the last layer in Q8.16.
    labels : array of int, (samples,)
    classes : int
    rng : Generator
        Draws the order of the samples.

    Returns
    -------
    array of int64, (classes, n)
        Weights in Q4.12.
    array of int64, (classes,)
        Biases in Q4.12.
    """
    head = Network("last layer", features.shape[1:], (Linear(classes),))
    nothing = np.zeros((classes, features.shape[1]), np.int64)
    learnt = untuned_layer(last_layer_sizes(head.stages[0], "layer", classes))
    job = Job(head, [StageIntegers(nothing, nothing[:, 0])], learnt, rate_of(RATE, BATCH))
    for _ in range(EPOCHS):
        order = rng.permutation(len(features))
        for chosen in np.split(order, range(BATCH, len(order), BATCH)):
            job.batch(features[chosen], labels[chosen], chosen)
    return added(learnt)
