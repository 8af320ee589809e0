"""Integer engine: converts floats once, counts values outside their format, and runs the job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...datasets.dataset import Samples
from ...fixed import Q4_12, Q8_16, Floats, Integers
from ...importers.layers.folding import Parameters
from ...lora.adapters import Adapters, AdapterSizes, added, last_layer_sizes, scheduled_rate, untuned_layer
from ...lora.early_stop import LOSS
from ...lora.forward_cache import ForwardCache
from ...lora.job import Job
from ...lora.update_noise import UpdateNoise
from ...models.network import Network
from ...nn.arithmetic.loss import Loss
from ...rng.urng import UrngSpec
from ..conversion import Converter
from .engine import Tensors, codec_of
from .methods import Method


class IntegerEngine:
    """Engine in Q8.16 and Q4.12 for methods that do not propagate through the network.

    Parameters
    ----------
    network : Network
        Network without batch norm.
    parameters : Parameters
        Float weights and biases of the frozen network.
    a : sequence of array, (rank, inputs)
        Initial A for the inputs of the last ``len(a)`` stages; empty where the last layer itself is trained.
    rank : int
        Rank of the adapters.
    rate : int
        Learning rate for the gradient of one sample, from `rate_of`.
    samples : int
        Entries of the cache.
    urng : UrngSpec, optional
        Generator for stochastic rounding of updates.
    loss : str
        See `nn.loss`; an autoencoder ignores labels.
    """

    def __init__(
        self,
        network: Network,
        parameters: Parameters,
        method: Method,
        a: Sequence[Floats],
        rank: int,
        rate: int,
        samples: int,
        urng: UrngSpec | None = None,
        loss: Loss = "cross_entropy",
    ) -> None:
        self._converter = Converter()
        frozen = self._converter.stages(parameters)
        if method.last_layer:
            adapters = untuned_layer(last_layer_sizes(network.stages[-1], method.last_layer, rank))
        else:
            shape = AdapterSizes(tuple(values.shape[1] for values in a), network.classes, rank)
            zeros = np.zeros((network.classes, rank), np.int64)
            adapters = Adapters.of(shape, [self._converter.convert(values, Q4_12) for values in a], [zeros] * len(a))
        codec = codec_of(network, method)
        cache = ForwardCache(network, codec, samples) if codec else None
        noise = UpdateNoise.by_parameter(urng, adapters.shape.updated) if urng else None
        self.job = Job(network, frozen, adapters, rate, cache, noise, loss=loss)

    @property
    def saturations(self) -> int:
        """Values clipped so far, including the conversion."""
        return self._converter.clipped + self.job.saturations

    @property
    def cache_bytes(self) -> int:
        return self.job.cache.records.nbytes if self.job.cache else 0

    def batch(self, samples: Samples, indices: Integers, factor: float = 1.0) -> Floats:
        rate = scheduled_rate(self.job.rate, factor)
        labels = np.zeros_like(samples.labels) if self.job.loss == "mse" else samples.labels
        return _floats(self.job.batch(self.integers(samples), labels, indices, rate).logits)

    def validate(self, samples: Samples, indices: Integers) -> Floats:
        return _floats(self.job.validate(self.integers(samples), samples.labels, indices).logits)

    def end_epoch(self, loss: float, validated: bool = False) -> float:
        """Loss in the core's integers, see `Job.end_epoch`."""
        epoch_loss = self.job.end_epoch()
        return (self.job.validation.loss if validated else epoch_loss) / (1 << LOSS.fraction)

    def logits(self, samples: Samples) -> Floats:
        """Logits of the network in its present state, (n, classes); the cache is not used."""
        return _floats(self.job.logits(self.integers(samples)))

    def tensors(self) -> Tensors:
        """Trained parameters by name.

        Adapters: A (rank, inputs) and B (classes, rank) in Q4.12, named by the stage whose input they read. A trained
        last layer: weights and biases with their updates, 12 fraction bits in 32 bits so that no sum is clipped.
        """
        stages, adapters = self.job.network.stages, self.job.adapters
        if adapters.shape.selects:
            last, (weight, bias) = self.job.frozen[-1], added(adapters)
            named = {"weight": last.weight + weight} if weight.size else {}
            named["bias"] = last.bias + bias
            return {f"layer.{len(stages) - 1}.{name}": values.astype(np.int32) for name, values in named.items()}
        pairs = adapters.pairs()
        first = len(stages) - len(pairs)
        return {
            f"adapter.{stage}.{name}": values.astype(np.int16)
            for stage, pair in enumerate(pairs, first)
            for name, values in zip("ab", pair, strict=True)
        }

    def kept(self) -> list[NDArray[np.generic]]:
        return [self.job.adapters.flat.copy()]

    def restore(self, kept: Sequence[NDArray[np.generic]]) -> None:
        (self.job.adapters.flat[:],) = kept

    def integers(self, samples: Samples) -> Integers:
        """Samples in Q8.16, see `Converter.samples`."""
        return self._converter.samples(samples)


def _floats(logits: Integers) -> Floats:
    return Q8_16.to_float(logits).astype(np.float32)
