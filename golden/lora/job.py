"""Integer fine-tuning job: frozen network, adapters to the logits, forward cache; the FPGA core gives the same bits.

Activations are Q8.16, parameters and gradients Q4.12. Sums are exact, followed by one rounding half to even with
saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import UserError
from ..fixed import Integers, Narrower
from ..models.network import Network
from ..nn.arithmetic.forward import StageIntegers, run, side_by_side
from ..nn.arithmetic.loss import Loss, labels_of
from ..nn.arithmetic.products import Product, product_of
from ..nn.softmax import SoftmaxTables
from .adapters import MAXIMUM_RATE, Adapters, Tuned, adapter_input, last_layer_sizes
from .early_stop import LARGEST_SUM, correct_samples, sample_losses
from .forward_cache import ForwardCache
from .mseloss import mse_gradient
from .update_noise import UpdateNoise


class BatchResult(NamedTuple):
    """Logits of a batch before the update, (n, classes) in Q8.16, and the number of cache misses."""

    logits: Integers
    misses: int


class Validation(NamedTuple):
    """Sum of the losses of a validation's samples, and the number of correct samples."""

    loss: int = 0
    correct: int = 0


class _Forward(NamedTuple):
    """Forward pass of a batch, with the gradient of its logits."""

    read: list[Integers]
    h: Integers
    logits: Integers
    gradient: Integers
    misses: int


class Job:
    """Fine-tuning job, run batch by batch.

    Parameters
    ----------
    network : Network
        Without batch norm.
    frozen : sequence of StageIntegers
        Weights and biases of the network.
    adapters : Adapters
        For the inputs of the last ``len(adapters.a)`` stages, or for the last layer; tuned in place.
    rate : int
        Default learning rate of a sample, from `rate_of`.
    cache : ForwardCache, optional
        By default the frozen network runs for every sample of every batch.
    noise : UpdateNoise, optional
        Random numbers for stochastic rounding of updates; by default updates are rounded to nearest.
    products : "blas", "int64" or "torch"
        Implementation of matrix products; all give equal results.
    loss : str
        See `nn.loss`.

    Attributes
    ----------
    batches : int
        Training batches so far.
    epoch_loss : int
        Loss of the last complete epoch.
    validation : Validation
        Validation of the last complete epoch.
    """

    def __init__(
        self,
        network: Network,
        frozen: Sequence[StageIntegers],
        adapters: Adapters,
        rate: int,
        cache: ForwardCache | None = None,
        noise: UpdateNoise | None = None,
        products: str = "blas",
        loss: Loss = "cross_entropy",
    ) -> None:
        self.network, self.frozen, self.adapters = network, tuple(frozen), adapters
        self.rate, self.cache, self.noise, self.loss = rate, cache, noise, loss
        self._labels = labels_of(loss, network.name, network.stages[0].inputs, network.classes)
        self.softmax = SoftmaxTables()
        self.batches = self.epoch_loss = self._loss = 0
        self.validation = self._validation = Validation()
        self._product: Product = product_of(products)
        self._narrow = Narrower()
        self._check()

    def _check(self) -> None:
        stages = self.network.stages
        if any(stage.batch_norm for stage in stages):
            raise UserError(f"{self.network.name} has batch norm: fold it first (golden.models.network.deployed)")
        for stage, own in zip(stages, self.frozen, strict=True):
            if own.weight.shape != stage.weight_shape or own.bias.shape != (stage.biases,):
                raise UserError(f"weights {own.weight.shape}, {own.bias.shape} do not fit {stage.weight_shape}")
        shape = self.adapters.shape
        expected = tuple(stage.inputs for stage in stages[-len(shape.inputs) :])
        if shape.selects:
            tuned: Tuned = "biases" if shape.inputs[0] == 1 else "layer"
            expected = last_layer_sizes(stages[-1], tuned, shape.rank).inputs
        if shape.classes != self.network.classes or shape.inputs != expected:
            raise UserError(f"adapters of {shape} do not fit {self.network.name}")
        _check_rate(self.rate)

    @property
    def saturations(self) -> int:
        """Values clipped so far in the frozen network, the adapters, loss gradients and updates."""
        return self._narrow.saturations

    def batch(self, inputs: Integers, labels: Integers, indices: Integers, rate: int | None = None) -> BatchResult:
        """Fine-tune on a batch.

        Parameters
        ----------
        inputs : array of int, (n, *network.input_shape)
            Q8.16.
        labels : array of int, (n,)
            0 with the loss ``mse``.
        indices : array of int, (n,)
            Cache entries of the samples.
        rate : int, optional
            Learning rate of a sample; by default the job's.

        Raises
        ------
        UserError
            If a shape, a label, an index or the rate does not fit.
        """
        rate = self.rate if rate is None else rate
        _check_rate(rate)
        done = self._forward(inputs, labels, indices)
        noise = self.noise.numbers(self.batches) if self.noise else None
        self.adapters.update(done.read, done.h, done.gradient, rate, self._product, self._narrow, noise)
        self.batches += 1
        self._loss += int(sample_losses(done.gradient, labels).sum())
        return BatchResult(done.logits, done.misses)

    def validate(self, inputs: Integers, labels: Integers, indices: Integers) -> BatchResult:
        """Run a batch without an update and add its loss and correct samples to the epoch's `validation`.

        Parameters and errors are those of `batch`. The gradients of the hidden values are computed, too, and may
        saturate.
        """
        done = self._forward(inputs, labels, indices)
        self.adapters.hidden_gradient(done.gradient, self._product, self._narrow)
        loss, correct = self._validation
        loss += int(sample_losses(done.gradient, labels).sum())
        self._validation = Validation(loss, correct + correct_samples(done.gradient, labels))
        return BatchResult(done.logits, done.misses)

    def end_epoch(self) -> int:
        """End an epoch and its validation; return the epoch's loss, in the last places of `early_stop.LOSS`."""
        self.epoch_loss, self._loss = min(self._loss, LARGEST_SUM), 0
        loss, correct = self._validation
        self.validation, self._validation = Validation(min(loss, LARGEST_SUM), correct), Validation()
        return self.epoch_loss

    def logits(self, inputs: Integers) -> Integers:
        """Logits of the tuned network, (n, classes) in Q8.16, without cache and counters."""
        narrow = Narrower()
        outputs = self.frozen_outputs(inputs, narrow)
        h = self.adapters.hidden(self._inputs_of_adapters(inputs, outputs), self._product, narrow)
        return self.adapters.logits(outputs[-1], h, self._product, narrow)

    def _forward(self, inputs: Integers, labels: Integers, indices: Integers) -> _Forward:
        """Run a batch to the gradient of its loss, with cached or new records."""
        self._check_batch(inputs, labels, indices)
        misses = len(inputs)
        if self.cache is None:
            outputs = self.frozen_outputs(inputs, self._narrow)
        else:
            new = self.cache.missing(indices)
            misses = len(new)
            if misses:
                self.cache.fill(indices[new], self.frozen_outputs(inputs[new], self._narrow))
            outputs = self.cache.read(indices)
        read, base = self._inputs_of_adapters(inputs, outputs), outputs[-1]
        h = self.adapters.hidden(read, self._product, self._narrow)
        logits = self.adapters.logits(base, h, self._product, self._narrow)
        if self.loss == "mse":
            gradient = mse_gradient(logits, inputs.reshape(logits.shape), self._narrow)
        else:
            gradient = self.softmax.gradient(logits, labels)
        return _Forward(read, h, logits, gradient, misses)

    def _inputs_of_adapters(self, inputs: Integers, outputs: Sequence[Integers]) -> list[Integers]:
        """Inputs of the adapters, (n, values) each."""
        seen, shape = [inputs.reshape(len(inputs), -1), *outputs], self.adapters.shape
        count = 1 if shape.selects else len(shape.inputs)
        read = [side_by_side(seen, stage.source) for stage in self.network.stages[-count:]]
        return [adapter_input(read[0], shape)] * len(shape.inputs) if shape.selects else read

    def frozen_outputs(self, inputs: Integers, narrow: Narrower) -> list[Integers]:
        """Flattened outputs of all stages of the frozen network, (n, values) in Q8.16; the base logits are last."""
        outputs = run(self.network.stages, self.frozen, inputs, self._product, narrow)
        return [output.reshape(len(inputs), -1) for output in outputs]

    def _check_batch(self, inputs: Integers, labels: Integers, indices: Integers) -> None:
        if inputs.shape[1:] != self.network.input_shape or not len(inputs) == len(labels) == len(indices):
            raise UserError(
                f"a batch of {self.network.name} is n x {self.network.input_shape} with n labels and n indices, "
                f"not {inputs.shape}, {labels.shape}, {indices.shape}"
            )
        if labels.size and not 0 <= labels.min() <= labels.max() < self._labels:
            raise UserError(f"a label of {labels.tolist()} is outside 0 to {self._labels - 1}")


def _check_rate(rate: int) -> None:
    if not 0 < rate <= MAXIMUM_RATE:
        raise UserError(f"a learning rate is 1 to {MAXIMUM_RATE}, not {rate}")
