"""Interface of the engines that `tune` runs, in float or in integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...datasets.dataset import Samples
from ...fixed import Floats, Integers
from ...lora.forward_cache import Codec, WordCodec, record_layout
from ...models.network import Network
from .methods import Cache, Method

Tensors = dict[str, NDArray[np.generic]]


class Engine(Protocol):
    """Fine-tuning of a network with one method."""

    @property
    def saturations(self) -> int:
        """Values clipped so far; 0 in float."""

    @property
    def cache_bytes(self) -> int:
        """Size of the forward cache in bytes."""

    def batch(self, samples: Samples, indices: Integers, factor: float = 1.0) -> Floats:
        """Take a gradient step on a batch and return the logits before the step, float32 (n, classes).

        `indices` (n,) are the samples' cache entries, `factor` multiplies the learning rate, see `rate_factors`.
        """

    def validate(self, samples: Samples, indices: Integers) -> Floats:
        """Logits of a batch that is not trained on, (n, classes), by the parameters before the next step of `batch`."""

    def end_epoch(self, loss: float, validated: bool = False) -> float:
        """End an epoch and return the loss: the argument, or an integer engine's own.

        `loss` is a sum over samples: of the epoch, or if `validated` of the validation after the epoch.
        """

    def logits(self, samples: Samples) -> Floats:
        """Logits of the network in its present state, (n, classes)."""

    def tensors(self) -> Tensors:
        """Trained parameters by name."""

    def kept(self) -> list[NDArray[np.generic]]:
        """Copies of the trained parameters, for `restore`."""

    def restore(self, kept: Sequence[NDArray[np.generic]]) -> None:
        """Overwrite the trained parameters with copies from `kept`."""


def codec_of(network: Network, method: Method) -> Codec | None:
    """Codec of the records in a method's forward cache, None without a cache."""
    if not method.caches:
        return None
    return record_layout(network) if method.cache is Cache.NF4 else WordCodec(network)


def initial_adapters(inputs: tuple[int, ...], rank: int, rng: np.random.Generator) -> list[Floats]:
    """Random initial A of each adapter, (rank, inputs), float32; B starts at 0.

    The variance of the Gaussian is 1 / inputs: h has the magnitude of x.
    """
    return [rng.normal(0, width**-0.5, (rank, width)).astype(np.float32) for width in inputs]
