"""Integer fine-tuning job, reproduced bit for bit by the FPGA core: InstantFT and Skip2-LoRA.

The job has a frozen network, adapters from stage inputs to the logits, and a forward cache. Activations are Q8.16,
parameters and gradients Q4.12. Sums are exact, followed by one rounding half to even with saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import UserError
from ..fixed import Integers, Narrower
from ..models.network import Network
from ..nn.forward import StageIntegers, run
from ..nn.loss import Loss, labels_of
from ..nn.products import Product, product_of
from ..nn.softmax import SoftmaxTables
from ..rng.urng import UrngSpec
from .adapters import MAXIMUM_RATE, NOISE_BITS, Adapters
from .forward_cache import ForwardCache
from .mseloss import mse_gradient


class BatchResult(NamedTuple):
    """Result of a batch: logits before the update, (n, classes) in Q8.16, and the number of cache misses."""

    logits: Integers
    misses: int


class Job:
    """Fine-tuning job, run batch by batch.

    Parameters
    ----------
    network : Network
        Network without batch norm.
    frozen : sequence of StageIntegers
        Weights and biases of the network.
    adapters : Adapters
        Adapters of the inputs of the last ``len(adapters.a)`` stages; tuned in place.
    rate : int
        Learning rate of a sample, from `rate_of`.
    cache : ForwardCache, optional
        Forward cache; without one, the frozen network runs for every sample of every batch.
    urng : UrngSpec, optional
        Generator for stochastic rounding of updates: parameter i of batch k takes number i mod n of position
        k * ceil(parameters / n) + i // n. By default updates are rounded to nearest.
    products : "blas", "int64" or "torch"
        Implementation of matrix products; all give equal results.
    loss : str
        See `nn.loss`.
    """

    def __init__(
        self,
        network: Network,
        frozen: Sequence[StageIntegers],
        adapters: Adapters,
        rate: int,
        cache: ForwardCache | None = None,
        urng: UrngSpec | None = None,
        products: str = "blas",
        loss: Loss = "cross_entropy",
    ) -> None:
        self.network, self.frozen, self.adapters = network, tuple(frozen), adapters
        self.rate, self.cache, self.urng, self.loss = rate, cache, urng, loss
        self._labels = labels_of(loss, network.name, network.stages)
        self.softmax = SoftmaxTables()
        self.batches = 0
        self._product: Product = product_of(products)
        self._narrow = Narrower()
        self._read = range(len(network.stages) - len(adapters.a), len(network.stages))
        self._check()

    def _check(self) -> None:
        stages = self.network.stages
        if any(stage.batch_norm for stage in stages):
            raise UserError(f"{self.network.name} has batch norm: fold it first (golden.models.network.deployed)")
        for stage, own in zip(stages, self.frozen, strict=True):
            if own.weight.shape != stage.weight_shape or own.bias.shape != (stage.biases,):
                raise UserError(f"weights {own.weight.shape}, {own.bias.shape} do not fit {stage.weight_shape}")
        shape = self.adapters.shape
        if shape.classes != self.network.classes or shape.inputs != tuple(stages[at].inputs for at in self._read):
            raise UserError(f"adapters of {shape} do not fit {self.network.name}")
        if not 0 < self.rate <= MAXIMUM_RATE:
            raise UserError(f"a learning rate is 1 to {MAXIMUM_RATE}, not {self.rate}")

    @property
    def saturations(self) -> int:
        """Number of values clipped so far in the frozen network, the adapters, loss gradients and updates."""
        return self._narrow.saturations

    def batch(self, inputs: Integers, labels: Integers, indices: Integers) -> BatchResult:
        """Fine-tune on one batch.

        Parameters
        ----------
        inputs : array of int, (n, *network.input_shape)
            Q8.16.
        labels : array of int, (n,)
            0 where a sample is its own target.
        indices : array of int, (n,)
            Cache entries of the samples.

        Raises
        ------
        UserError
            If a shape, a label or an index does not fit.
        """
        self._check_batch(inputs, labels, indices)
        misses = len(inputs)
        if self.cache is None:
            outputs = self._run(inputs, self._narrow)
        else:
            new = self.cache.missing(indices)
            misses = len(new)
            if misses:
                self.cache.fill(indices[new], self._run(inputs[new], self._narrow))
            outputs = self.cache.read(indices)
        read, base = self._inputs_of_adapters(inputs, outputs), outputs[-1]
        h = self.adapters.hidden(read, self._product, self._narrow)
        logits = self.adapters.logits(base, h, self._product, self._narrow)
        if self.loss == "mse":
            gradient = mse_gradient(logits, inputs.reshape(logits.shape), self._narrow)
        else:
            gradient = self.softmax.gradient(logits, labels)
        self.adapters.update(read, h, gradient, self.rate, self._product, self._narrow, self._noise())
        self.batches += 1
        return BatchResult(logits, misses)

    def logits(self, inputs: Integers) -> Integers:
        """Logits of the tuned network, (n, classes) in Q8.16; neither the cache nor the counters are used."""
        narrow = Narrower()
        outputs = self._run(inputs, narrow)
        h = self.adapters.hidden(self._inputs_of_adapters(inputs, outputs), self._product, narrow)
        return self.adapters.logits(outputs[-1], h, self._product, narrow)

    def _inputs_of_adapters(self, inputs: Integers, outputs: Sequence[Integers]) -> list[Integers]:
        """Inputs of the adapters, (n, values) each: those of their stages."""
        seen = [inputs.reshape(len(inputs), -1), *outputs]
        return [seen[self.network.stages[at].source + 1] for at in self._read]

    def _run(self, inputs: Integers, narrow: Narrower) -> list[Integers]:
        """Run the frozen network: flattened outputs of all stages, (n, values) in Q8.16, base logits last."""
        outputs = run(self.network.stages, self.frozen, inputs, self._product, narrow)
        return [one.reshape(len(inputs), -1) for one in outputs]

    def _noise(self) -> Integers | None:
        if self.urng is None:
            return None
        count = self.adapters.shape.parameters
        cycles = -(-count // self.urng.n)
        contents = self.urng.contents(self.batches * cycles + np.arange(cycles)).reshape(-1)[:count]
        # numbers are odd: the lowest bit is one, which centres them in the bits below
        return (2 * contents + 1) << (NOISE_BITS - self.urng.bits - 1)

    def _check_batch(self, inputs: Integers, labels: Integers, indices: Integers) -> None:
        if inputs.shape[1:] != self.network.input_shape or not len(inputs) == len(labels) == len(indices):
            raise UserError(
                f"a batch of {self.network.name} is n x {self.network.input_shape} with n labels and n indices, "
                f"not {inputs.shape}, {labels.shape}, {indices.shape}"
            )
        if labels.size and not 0 <= labels.min() <= labels.max() < self._labels:
            raise UserError(f"a label of {labels.tolist()} is outside 0 to {self._labels - 1}")
