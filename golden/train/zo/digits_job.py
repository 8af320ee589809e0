"""Job of the demo: a small network, pre-trained on scikit-learn's digits, and drifted digits to tune on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier

from ...datasets.dataset import Samples
from ...datasets.tasks import task_of
from ...fixed import Q4_12, Integers
from ..metrics import accuracy, cross_entropy


@dataclass(frozen=True)
class DigitsJob:
    """A pre-trained network and the drifted data to tune and test on.

    Parameters
    ----------
    layers : tuple of int
        Widths from 64 inputs to 10 outputs.
    weights : array of int
        All weights and biases, flat, Q4.12.
    tune, test : Samples
        Drifted samples, to fine-tune on and held out.
    accuracy_undrifted : float
        Accuracy on the held-out images without drift.
    """

    layers: tuple[int, ...]
    weights: Integers
    tune: Samples
    test: Samples
    accuracy_undrifted: float

    def logits(self, weights: Integers, images: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logits (n, 10) of images (n, 64) with Q4.12 weights; activations are floats."""
        values, offset, hidden = Q4_12.to_float(weights), 0, images
        for depth, (fan_in, fan_out) in enumerate(zip(self.layers[:-1], self.layers[1:], strict=True)):
            matrix = values[offset : offset + fan_in * fan_out].reshape(fan_in, fan_out)
            offset += fan_in * fan_out
            hidden = (hidden if depth == 0 else np.maximum(hidden, 0)) @ matrix + values[offset : offset + fan_out]
            offset += fan_out
        return hidden

    def loss(self, weights: Integers, samples: Samples) -> float:
        """Mean cross entropy of samples with Q4.12 weights, in nats."""
        return cross_entropy(self.logits(weights, _vectors(samples)), samples.labels)

    def accuracy(self, weights: Integers, samples: Samples) -> float:
        """Fraction of samples classified correctly with Q4.12 weights."""
        return accuracy(self.logits(weights, _vectors(samples)), samples.labels)


HIDDEN = 32
"""Width of the hidden layer."""


def prepare() -> DigitsJob:
    """Pre-train on 800 digits; tune on 500 and test on 497 others with the drift "camera" (`datasets.drift.camera`)."""
    undrifted = task_of("digits", seed=0)
    drifted = task_of("digits", drift="camera", seed=0)
    network = MLPClassifier((HIDDEN,), max_iter=1000, alpha=1e-3, random_state=0)
    network.fit(_vectors(undrifted.pretrain), undrifted.pretrain.labels)
    parts = [part for pair in zip(network.coefs_, network.intercepts_, strict=True) for part in pair]
    weights = Q4_12.from_float(np.concatenate([part.reshape(-1) for part in parts]))
    job = DigitsJob((64, HIDDEN, 10), weights, drifted.tune, drifted.test, 0.0)
    return replace(job, accuracy_undrifted=job.accuracy(weights, undrifted.test))


def _vectors(samples: Samples) -> NDArray[np.float64]:
    """Images as vectors (n, 64) in 0 to 1."""
    return samples.values().reshape(len(samples), -1).astype(np.float64)
