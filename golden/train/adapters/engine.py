"""What runs a fine-tuning job, in float or in integers: the one interface that `tune` knows."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...datasets.dataset import Samples
from ...fixed import Floats, Integers

Tensors = dict[str, NDArray[np.generic]]


class Engine(Protocol):
    """Fine-tunes one network with one method."""

    @property
    def saturations(self) -> int:
        """Values clipped so far; 0 in float."""

    @property
    def cache_bytes(self) -> int:
        """Size of the forward cache."""

    def batch(self, samples: Samples, indices: Integers) -> Floats:
        """Learn from a batch; `indices` name its samples in the cache. Returns the logits before, (n, classes)."""

    def logits(self, samples: Samples) -> Floats:
        """Outputs of the network as tuned so far, (n, classes)."""

    def tensors(self) -> Tensors:
        """What was trained, by name."""


def initial_adapters(inputs: tuple[int, ...], rank: int, rng: np.random.Generator) -> list[Floats]:
    """A of each adapter, (rank, inputs): Gaussian of variance 1 / inputs, so that h is as large as x; B starts at 0."""
    return [rng.normal(0, width**-0.5, (rank, width)).astype(np.float32) for width in inputs]
