"""Zeroth-order fine-tuning of a network in the hardware's integers: converts floats once, then runs `golden.zo.job`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...datasets.dataset import Samples
from ...fixed import Q8_16, Integers
from ...importers.layers.folding import Parameters
from ...models.network import Network
from ...nn.array.mapping import Mapping
from ...rng.perturbation import PerturbationSource
from ...zo.deltas import PerturbationTable
from ...zo.job import ZerothOrderJob, ZerothOrderStep
from ...zo.mapping import PerturbationMapping
from ...zo.memory_layout import StepOrder
from ...zo.mse_difference import rate_scale
from ...zo.network_model import NetworkModel
from ...zo.step_settings import StepSettings
from ..conversion import Converter
from ..metrics import accuracy, cross_entropy, mean_squared_error
from .schedule import Schedule

ZerothOrderProgress = Callable[[int, list[ZerothOrderStep]], None]
"""Called after each step with its number from 1 and the records of its slopes."""


class IntegerZerothOrder:
    """A zeroth-order job on a network and samples, as the core runs it.

    Parameters
    ----------
    network : Network
        Network without batch norm.
    parameters : Parameters
        Pre-trained weights and biases, floats.
    source : PerturbationSource
    tune : Samples
        Samples to fine-tune on. An autoencoder does not use their labels.
    schedule : Schedule
    rate : float
        Learning rate of the mean loss, of the mean squared error as PyTorch defines it.
    settings : StepSettings, optional
        Their shift is chosen for the rate.
    position : int
        Position of the first perturbation.
    lanes, columns : int
        Size of the core's array, which decides the order of the parameters in a perturbation.

    Attributes
    ----------
    model : NetworkModel
    job : ZerothOrderJob
    orders : list of StepOrder
        Samples, labels and rate of each step.

    Raises
    ------
    UserError
        If a setting is out of range.
    """

    def __init__(
        self,
        network: Network,
        parameters: Parameters,
        source: PerturbationSource,
        tune: Samples,
        schedule: Schedule,
        rate: float,
        settings: StepSettings | None = None,
        position: int = 0,
        lanes: int = 32,
        columns: int = 4,
    ) -> None:
        self._converter = Converter()
        settings = settings or StepSettings()
        autoencoder = settings.loss == "mse"
        if autoencoder:
            rate *= rate_scale(network.classes)
        labels = np.zeros(len(tune), np.int64) if autoencoder else tune.labels.astype(np.int64)
        self.orders, settings = step_orders(labels, schedule, rate, settings, source)
        as_bytes = tune.inputs.dtype == np.uint8
        mapping = PerturbationMapping(Mapping.of(network, lanes, columns, as_bytes, pairs="perturbed"))
        self.model = NetworkModel(mapping, self._converter.stages(parameters))
        self.job = ZerothOrderJob(self.model, source, settings, position)
        self._inputs = self._converter.samples(tune)

    @property
    def saturations(self) -> int:
        """Number of values clipped so far, including the conversion."""
        return self._converter.clipped + self.job.saturations

    def run(self, progress: ZerothOrderProgress | None = None) -> list[ZerothOrderStep]:
        """Take all steps; return the records of their slopes, one after the other."""
        return take_steps(self.job, self._inputs, self.orders, progress)

    def inputs(self, samples: Samples) -> NDArray[np.integer]:
        """Samples as the core reads them: bytes, or Q8.16."""
        as_bytes = self.model.mapping.forward.byte_inputs
        return samples.inputs.astype(np.uint8) if as_bytes else Converter().samples(samples)

    def accuracy(self, samples: Samples, at_once: int = 500) -> float:
        """Fraction of samples that the network as tuned so far classifies correctly."""
        return accuracy(self._outputs(self._converter.samples(samples), at_once), samples.labels)

    def loss(self, samples: Samples, at_once: int = 500) -> float:
        """Mean cross entropy of samples by the network as tuned so far."""
        return cross_entropy(self._outputs(self._converter.samples(samples), at_once), samples.labels)

    def error(self, samples: Samples, at_once: int = 500) -> float:
        """Mean squared error of the autoencoder as tuned so far."""
        inputs = self._converter.samples(samples)
        return mean_squared_error(self._outputs(inputs, at_once), Q8_16.to_float(inputs))

    def _outputs(self, inputs: Integers, at_once: int) -> NDArray[np.float64]:
        """Outputs of the network as tuned so far, computed in parts of so many samples."""
        parts = [self.job.logits(inputs[first : first + at_once]) for first in range(0, len(inputs), at_once)]
        return Q8_16.to_float(np.concatenate(parts))


def step_orders(
    labels: Integers, schedule: Schedule, rate: float, settings: StepSettings, source: PerturbationSource
) -> tuple[list[StepOrder], StepSettings]:
    """Make the orders of all steps, and settings with a shift for their rate.

    Parameters
    ----------
    labels : array of int, (samples,)
    schedule : Schedule
    rate : float
        Learning rate of the mean loss.
    settings : StepSettings
    source : PerturbationSource
    """
    batches = list(schedule.indices(len(labels)))
    sizes = [len(indices) for indices in batches]
    rates, settings = settings.with_rates([rate] * schedule.steps, sizes, PerturbationTable(source))
    orders = [StepOrder(indices, labels[indices], own) for indices, own in zip(batches, rates, strict=True)]
    return orders, settings


def take_steps(
    job: ZerothOrderJob,
    inputs: Integers,
    orders: Sequence[StepOrder],
    progress: ZerothOrderProgress | None = None,
) -> list[ZerothOrderStep]:
    """Take the steps of orders; return the records of their slopes, one after the other."""
    slopes: list[ZerothOrderStep] = []
    for number, order in enumerate(orders, start=1):
        step = job.step(inputs[order.indices], order.labels, order.rate)
        slopes += step
        if progress:
            progress(number, step)
    return slopes
