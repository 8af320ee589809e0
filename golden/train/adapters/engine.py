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
    """Fine-tuning of one network with one method."""

    @property
    def saturations(self) -> int:
        """Number of values clipped so far; 0 in float."""

    @property
    def cache_bytes(self) -> int:
        """Size of the forward cache in bytes."""

    def batch(self, samples: Samples, indices: Integers, factor: float = 1.0) -> Floats:
        """Take a gradient step on a batch.

        Parameters
        ----------
        samples : Samples
        indices : array of int, (n,)
            Cache entries of the samples.
        factor : float
            Factor of the learning rate, see `rate_factors`.

        Returns
        -------
        array of float32, (n, classes)
            Logits before the step.
        """

    def validate(self, samples: Samples, indices: Integers) -> Floats:
        """Run a batch that is not learnt from, with parameters as in `batch`; return its logits, (n, classes)."""

    def end_epoch(self, loss: float, validated: bool = False) -> float:
        """End an epoch with a loss, the sum over its samples; return that loss, or the engine's own in its place.

        Parameters
        ----------
        loss : float
        validated : bool
            It is that of the samples that were validated behind the epoch.
        """

    def logits(self, samples: Samples) -> Floats:
        """Logits of the network as tuned so far, (n, classes)."""

    def tensors(self) -> Tensors:
        """Trained parameters by name."""

    def kept(self) -> list[NDArray[np.generic]]:
        """Copies of the trained parameters, to come back to with `restore`."""

    def restore(self, kept: Sequence[NDArray[np.generic]]) -> None:
        """Take trained parameters that `kept` gave."""


def codec_of(network: Network, method: Method) -> Codec | None:
    """Codec of the records in a method's forward cache, None without a cache."""
    if not method.caches:
        return None
    return record_layout(network) if method.cache is Cache.NF4 else WordCodec(network)


def initial_adapters(inputs: tuple[int, ...], rank: int, rng: np.random.Generator) -> list[Floats]:
    """Draw the initial A of each adapter, (rank, inputs); B starts at 0.

    The variance of the Gaussian is 1 / inputs, so that h has the magnitude of x.
    """
    return [rng.normal(0, width**-0.5, (rank, width)).astype(np.float32) for width in inputs]
