"""Float engine for adapters from every layer's input to the logits: Skip-LoRA, Skip2-LoRA, InstantFT.

No gradient propagates through the network. A step is four products of small matrices (InstantFT, equation 3;
Skip2-LoRA, equations 10 to 12), computed with NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from ...datasets.dataset import Samples
from ...fixed import Floats, Integers
from ...lora.forward_cache import Codec, widths
from ...models.module import NetworkModule
from ...models.network import Network
from .engine import Tensors


class SkipEngine:
    """Engine with float32 adapters.

    Parameters
    ----------
    network : Network
        Without batch norm.
    module : NetworkModule
        The frozen network, see `models.folding.deployed_module`.
    a : sequence of array, (rank, inputs)
        Initial A for the input of each stage.
    rate : float
        Learning rate for the gradient of one sample.
    samples : int
        Entries of the cache.
    """

    saturations = 0

    def __init__(
        self,
        network: Network,
        module: NetworkModule,
        a: Sequence[Floats],
        rate: float,
        codec: Codec | None,
        samples: int,
    ) -> None:
        self.a = [values.T.copy() for values in a]
        self.rank = self.a[0].shape[1]
        self.b = np.zeros((network.classes, self.rank * len(self.a)), np.float32)
        self.rate = rate
        self._module = module.eval()
        ends = [0, *np.cumsum(widths(network)).tolist()]
        self._places = [slice(*pair) for pair in pairwise(ends)]
        self._sources = [stage.source for stage in network.stages]
        self._ends = network.ends
        self._codec = codec
        self._cache = np.zeros((samples, codec.values if codec else 0), np.float32)
        self._valid = np.zeros(samples, np.bool_)

    @property
    def cache_bytes(self) -> int:
        """Size in bytes of the forward cache in the method's format; this engine stores NF4 values dequantised."""
        return self._codec.bytes * len(self._cache) if self._codec else 0

    # a diverging run overflows float32; the caller detects it by the loss, not by NumPy's warnings
    @np.errstate(over="ignore", invalid="ignore")
    def batch(self, samples: Samples, indices: Integers, factor: float = 1.0) -> Floats:
        values = samples.values()
        read, base = self._read(values, self._outputs(values, indices))
        h = self._hidden(read)
        logits = base + h @ self.b.T
        gradient = np.exp(logits - logits.max(axis=1, keepdims=True))
        gradient /= gradient.sum(axis=1, keepdims=True)
        gradient[np.arange(len(logits)), samples.labels] -= 1
        gradient *= np.float32(self.rate * factor)
        dh = gradient @ self.b
        self.b -= gradient.T @ h
        for number, (a, x) in enumerate(zip(self.a, read, strict=True)):
            a -= x.T @ dh[:, number * self.rank : (number + 1) * self.rank]
        return logits

    def validate(self, samples: Samples, indices: Integers) -> Floats:
        return self.logits(samples)

    def end_epoch(self, loss: float, validated: bool = False) -> float:
        return loss

    @np.errstate(over="ignore", invalid="ignore")  # as in `batch`
    def logits(self, samples: Samples) -> Floats:
        """Logits of the network in its present state, (n, classes); the cache is not used."""
        values = samples.values()
        read, base = self._read(values, self._run(values))
        result: Floats = base + self._hidden(read) @ self.b.T
        return result

    def tensors(self) -> Tensors:
        """A (rank, inputs) and B (classes, rank) of each adapter, named by the stage whose input the adapter reads."""
        pairs = zip(self.a, np.split(self.b, len(self.a), axis=1), strict=True)
        named = {
            f"adapter.{stage}.{name}": values
            for stage, (a, b) in enumerate(pairs)
            for name, values in (("a", a.T), ("b", b))
        }
        return {name: np.ascontiguousarray(values) for name, values in named.items()}

    def kept(self) -> list[NDArray[np.generic]]:
        return [values.copy() for values in (*self.a, self.b)]

    def restore(self, kept: Sequence[NDArray[np.generic]]) -> None:
        for values, copy in zip((*self.a, self.b), kept, strict=True):
            values[:] = copy

    def _read(self, values: Floats, outputs: Floats) -> tuple[list[Floats], Floats]:
        """Inputs of the adapters, and base logits, from the network's inputs and all stages' outputs."""
        seen = [values.reshape(len(values), -1), *(outputs[:, where] for where in self._places)]
        return [np.concatenate([seen[stage + 1] for stage in source], axis=1) for source in self._sources], seen[-1]

    def _hidden(self, read: Sequence[Floats]) -> Floats:
        return np.concatenate([x @ a for x, a in zip(read, self.a, strict=True)], axis=1)

    def _outputs(self, values: Floats, indices: Integers) -> Floats:
        if self._codec is None:
            return self._run(values)
        if not self._valid[indices].all():
            new = np.flatnonzero(~self._valid[indices])
            outputs = self._run(values[new])
            self._cache[indices[new]] = self._codec.quantise_floats(outputs)
            self._valid[indices] = True
        return self._cache[indices]

    def _run(self, values: Floats) -> Floats:
        """Outputs of all stages of the frozen network, flattened and concatenated, (n, cached values)."""
        with torch.no_grad():
            outputs = self._module.outputs(torch.from_numpy(values))
        result: Floats = torch.cat([outputs[end].flatten(1) for end in self._ends], dim=1).numpy()
        return result
