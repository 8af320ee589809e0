"""Zeroth-order fine-tuning in a core's integers: floats are converted once, then `golden.zo.job` runs.

`IntegerRun` runs the job of any model; the rest is about networks of layers.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import frexp
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ...datasets.dataset import Samples, Task
from ...errors import UserError
from ...fixed import Q4_12, Q8_16, Integers
from ...importers.layers.folding import Parameters, described, folded
from ...importers.layers.own_tensors import by_stage, returned, stage_tensors, user_state
from ...models.network import Network, deployed
from ...nn.array.mapping import Mapping as ArrayMapping
from ...rng.perturbation import PerturbationSource, check_full_rank
from ...zo.coefficient import LARGEST_BATCH
from ...zo.deltas import DELTA, PerturbationTable
from ...zo.job import ZerothOrderJob, ZerothOrderStep
from ...zo.mapping import PerturbationMapping
from ...zo.memory_layout import StepOrder
from ...zo.mse_difference import rate_scale
from ...zo.network_model import NetworkModel
from ...zo.step_settings import EPS_SHIFTS, StepSettings
from ..conversion import Converter, values_of
from ..metrics import accuracy, cross_entropy, mean_squared_error
from .delta_file import Delta, stages_digest
from .finetune import StepProgress, ZoResult, ZoSettings
from .methods import CORE_PARAMETERS, integer_source_of, start_of
from .parameter_order import ArrayOrder
from .periodic import Periodic
from .schedule import Schedule


class IntegerRun(ABC):
    """Fine-tuning run in integers, forward pass included; as `FineTuning` in use.

    Attributes
    ----------
    settings : ZoSettings
    source : Periodic
    """

    settings: ZoSettings
    source: Periodic

    @property
    @abstractmethod
    def job(self) -> ZerothOrderJob:
        """The job."""

    @property
    @abstractmethod
    def trained_parameters(self) -> int:
        """Number of parameters that are tuned."""

    @property
    @abstractmethod
    def saturations(self) -> int:
        """Number of values clipped so far, including the conversion."""

    @abstractmethod
    def take_steps(self, progress: ZerothOrderProgress) -> None:
        """Take all steps."""

    @abstractmethod
    def accuracy(self) -> float:
        """Fraction of held-out samples that the model as tuned so far classifies correctly."""

    @abstractmethod
    def held_out_loss(self) -> float:
        """Mean cross entropy of the held-out samples by the model as tuned so far."""

    @abstractmethod
    def tensors(self) -> Mapping[str, NDArray[np.generic]]:
        """Tensors of the user's model, tuned, by his names."""

    @abstractmethod
    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        """Sum of the updates so far, with other metadata of the run's start."""

    def run(self, progress: StepProgress | None = None, watch: int = 0) -> ZoResult:
        """Run all steps.

        Parameters
        ----------
        progress : callable, optional
        watch : int
            Steps between two tests on held-out samples; 0 for one test at the end.
        """
        curve = [(0, self.accuracy())]
        losses: list[float] = []
        seconds, started = 0.0, time.perf_counter()

        def after(number: int, step: list[ZerothOrderStep]) -> None:
            nonlocal seconds, started
            seconds += time.perf_counter() - started
            losses.append(float(np.mean([loss_of(slope) for slope in step])))
            accuracy = None
            if number == self.settings.schedule.steps or (watch and number % watch == 0):
                accuracy = self.accuracy()
                curve.append((number, accuracy))
            if progress:
                progress(number, losses[-1], accuracy)
            started = time.perf_counter()

        self.take_steps(after)
        return ZoResult(
            self.settings.engine or "golden",
            losses,
            curve,
            seconds,
            self.source.spec.period,
            dict(self.tensors()),
            self.trained_parameters,
            self.saturations,
        )

    def replay(self, slopes: Sequence[ZerothOrderStep]) -> None:
        """Take the moves of other records of all steps, such as a core's, instead of the run's own."""
        job = self.job
        job.total = np.zeros_like(job.total)
        for step in self.settings.split.steps(slopes):
            # a step begins with a perturbation of the first part, if there is one
            job.position = (step[0].position - job.layout.spans[0]) % job.source.period
            job.move([slope.coefficient for slope in step])


def loss_of(step: ZerothOrderStep) -> float:
    """Mean cross entropy of both sides of a step, from probabilities of at least a last place."""
    return float(-np.log(Q4_12.to_float(np.maximum(step.probabilities, 1))).mean())


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
        mapping = PerturbationMapping(ArrayMapping.of(network, lanes, columns, as_bytes, pairs="perturbed"))
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


class IntegerTuning(IntegerRun):
    """Fine-tuning run of all parameters of a network in integers, forward pass included; as `FineTuning` in use.

    Parameters
    ----------
    network : Network
    module : torch.nn.Module
        Pre-trained; not modified.
    task : Task
    settings : ZoSettings
    lanes, columns : int
        Size of the core's array.

    Attributes
    ----------
    task, settings
        As given.
    integers : IntegerZerothOrder
        The job.
    stages : tuple of StageTensors
    state : dict of str to Tensor
        The user's tensors before tuning, by name.

    Raises
    ------
    UserError
        As `check_settings` does, or if network, samples and settings do not fit together.
    """

    def __init__(
        self, network: Network, module: nn.Module, task: Task, settings: ZoSettings, lanes: int, columns: int
    ) -> None:
        check_settings(settings, len(task.tune))
        self.task, self.settings = task, settings
        own = described(network, module)
        self.network, self.stages, self.state = network, stage_tensors(network, own), user_state(module, own)
        self._order = ArrayOrder.of(network, lanes, columns, settings.split.cut)
        self.source = source_of(settings, self._order.mapping.width)
        self.integers = IntegerZerothOrder(
            deployed(network),
            folded(network, own),
            self.source.spec,
            task.tune,
            settings.schedule,
            settings.rate,
            step_settings(settings),
            start_of(self.source, settings.schedule.seed),
            lanes,
            columns,
        )

    @property
    def job(self) -> ZerothOrderJob:
        """The job of the network's integers."""
        return self.integers.job

    @property
    def trained_parameters(self) -> int:
        """Number of the network's parameters."""
        return self.network.parameters

    @property
    def saturations(self) -> int:
        """Number of values clipped so far, including the conversion."""
        return self.integers.saturations

    def take_steps(self, progress: ZerothOrderProgress) -> None:
        """Take all steps."""
        self.integers.run(progress)

    def accuracy(self) -> float:
        """Fraction of held-out samples that the network as tuned so far classifies correctly."""
        return self.integers.accuracy(self.task.test)

    def held_out_loss(self) -> float:
        """Mean cross entropy of the held-out samples by the network as tuned so far."""
        return self.integers.loss(self.task.test)

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Whole state of the user's network, tuned: with batch norm as it is, which folds to values of Q4.12.

        Where its batch norm cannot hold them, see `StageTensors.returned`, it is the folded parameters alone.
        """
        values = values_of(self.integers.model.tuned(self.integers.job))
        before = {name: one.cpu().numpy() for name, one in self.state.items()}
        try:
            return {**before, **returned(self.stages, values, self.state)}
        except UserError:
            return {**by_stage(self.stages, values)}

    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        """Sum of the updates so far.

        Parameters
        ----------
        run : mapping of str to str
            Other metadata of the run's start.
        """
        shapes: list[tuple[str, tuple[int, ...]]] = []
        for own, one in zip(self.stages, self.integers.model.frozen, strict=True):
            shapes += [(own.weight_name, own.given(one.weight).shape), (own.bias_name, one.bias.shape)]
        total = self.integers.job.total.astype(np.int32)
        start = {**run, "stages": json.dumps([one.described for one in self.stages])}
        if all(one.bias and not one.norm and one.order is None for one in self.stages):
            del start["stages"]  # the parameters say it
        return Delta(
            self.source, DELTA, tuple(shapes), stages_digest(self.stages, self.state), total, self._order, start
        )


def core_settings(settings: ZoSettings) -> ZoSettings:
    """Fill in what the integers of a core take by default: their engine, and `CORE_PARAMETERS` of the generator."""
    parameters = (*CORE_PARAMETERS.get(settings.generator_name, ()), *settings.parameters)
    return replace(settings, engine=settings.engine or "golden", parameters=parameters)


def check_settings(settings: ZoSettings, samples: int) -> None:
    """Refuse settings that a core's integers cannot run.

    Parameters
    ----------
    settings : ZoSettings
    samples : int
        Number of samples to tune on.

    Raises
    ------
    UserError
        If the method does not tune all parameters as integers, a step has several perturbations or too many samples, or
        eps or the rate has no integer.
    """
    if not settings.writes_deltas:
        raise UserError(f"a core tunes all parameters as integers, which {settings.method} does not")
    check_steps(settings, samples)


def check_steps(settings: ZoSettings, samples: int) -> None:
    """Refuse steps that are none of the integer job's, of `check_settings` all but which parameters are tuned."""
    if settings.queries > 1:
        raise UserError(f"queries = {settings.queries}: a core counts perturbations of a step with --p1 and --p2")
    steps = step_settings(settings)
    sizes = [len(indices) for indices in settings.schedule.indices(samples)]
    if max(sizes) > LARGEST_BATCH:
        raise UserError(f"batch = {max(sizes)}: a core's step has at most {LARGEST_BATCH} samples")
    source = integer_source_of(settings.generator_name, settings.parameters)
    steps.with_rates([settings.rate] * len(sizes), sizes, PerturbationTable(source.spec))


def step_settings(settings: ZoSettings) -> StepSettings:
    """Settings of a core's steps, but for their shift; see `eps_shift_of`."""
    return StepSettings(eps_shift=eps_shift_of(settings.eps), split=settings.split)


def eps_shift_of(eps: float) -> int:
    """Shift of a length of a perturbation that is a power of two.

    Raises
    ------
    UserError
        If it is none, or not in range.
    """
    mantissa, exponent = frexp(eps)
    if mantissa != 0.5 or 1 - exponent not in EPS_SHIFTS:
        least, usual, most = (2.0**-shift for shift in (EPS_SHIFTS[-1], 10, EPS_SHIFTS[0]))
        raise UserError(f"eps = {eps:g}: a core's is a power of two from {least} to {most}, such as {usual}")
    return 1 - exponent


def source_of(settings: ZoSettings, width: int) -> Periodic:
    """Make the source of perturbations of words of so many parameters.

    Raises
    ------
    UserError
        If the generator gives floats, or weights of different inputs the same numbers.
    """
    source = integer_source_of(settings.generator_name, settings.parameters)
    check_full_rank(source.spec, width)
    return Periodic(source.spec, width, source.fraction)
