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
    """Fine-tuning run in integers, forward pass included; used like `FineTuning`."""

    settings: ZoSettings
    source: Periodic

    @property
    @abstractmethod
    def job(self) -> ZerothOrderJob:
        """The integer job."""

    @property
    @abstractmethod
    def trained_parameters(self) -> int:
        """Number of tuned parameters."""

    @property
    @abstractmethod
    def saturations(self) -> int:
        """Values clipped so far, including the conversion."""

    @abstractmethod
    def take_steps(self, progress: ZerothOrderProgress) -> None:
        """Take all steps."""

    @abstractmethod
    def accuracy(self) -> float:
        """Fraction of held-out samples that the tuned model classifies correctly."""

    @abstractmethod
    def held_out_loss(self) -> float:
        """Mean cross entropy of the held-out samples by the tuned model."""

    @abstractmethod
    def tensors(self) -> Mapping[str, NDArray[np.generic]]:
        """Tuned tensors of the user's model, by the user's names."""

    @abstractmethod
    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        """Sum of the updates so far; `run` is metadata of the run's start."""

    def run(self, progress: StepProgress | None = None, watch: int = 0) -> ZoResult:
        """Run all steps.

        `watch` is the number of steps between tests on held-out samples; with 0 the only tests are before and after the
        run.
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
        """Apply the records of all steps from another run, such as a core's, in place of this run's updates."""
        job = self.job
        job.total = np.zeros_like(job.total)
        for step in self.settings.split.steps(slopes):
            # the first record of a split step starts after the span of the first part
            job.position = (step[0].position - job.layout.spans[0]) % job.source.period
            job.move([slope.coefficient for slope in step])


def loss_of(step: ZerothOrderStep) -> float:
    """Mean cross entropy over both perturbation signs of a step; probabilities below one last place count as one."""
    return float(-np.log(Q4_12.to_float(np.maximum(step.probabilities, 1))).mean())


ZerothOrderProgress = Callable[[int, list[ZerothOrderStep]], None]
"""Called after each step with its number from 1 and the records of its projected gradients."""


class IntegerZerothOrder:
    """A zeroth-order job on a network and samples, as the core runs it.

    Parameters
    ----------
    network : Network
        Without batch norm.
    parameters : Parameters
        Pre-trained float weights and biases.
    tune : Samples
        Samples to fine-tune on; an autoencoder ignores labels.
    rate : float
        Learning rate of the mean loss, or of PyTorch's mean squared error.
    settings : StepSettings, optional
        The shift is replaced according to the rate.
    position : int
        Position of the first perturbation.
    lanes, columns : int
        Size of the core's array, which decides the order of perturbation.

    Attributes
    ----------
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
        return self._converter.clipped + self.job.saturations

    def run(self, progress: ZerothOrderProgress | None = None) -> list[ZerothOrderStep]:
        """Take all steps and return the records of their projected gradients, in order."""
        return take_steps(self.job, self._inputs, self.orders, progress)

    def inputs(self, samples: Samples) -> NDArray[np.integer]:
        """Samples in the form that the core reads: bytes, or Q8.16."""
        as_bytes = self.model.mapping.forward.byte_inputs
        return samples.inputs.astype(np.uint8) if as_bytes else Converter().samples(samples)

    def accuracy(self, samples: Samples, at_once: int = 500) -> float:
        """Fraction of samples that the tuned network classifies correctly."""
        return accuracy(self._outputs(self._converter.samples(samples), at_once), samples.labels)

    def loss(self, samples: Samples, at_once: int = 500) -> float:
        """Mean cross entropy of samples by the tuned network."""
        return cross_entropy(self._outputs(self._converter.samples(samples), at_once), samples.labels)

    def error(self, samples: Samples, at_once: int = 500) -> float:
        inputs = self._converter.samples(samples)
        return mean_squared_error(self._outputs(inputs, at_once), Q8_16.to_float(inputs))

    def _outputs(self, inputs: Integers, at_once: int) -> NDArray[np.float64]:
        parts = [self.job.logits(inputs[first : first + at_once]) for first in range(0, len(inputs), at_once)]
        return Q8_16.to_float(np.concatenate(parts))


def step_orders(
    labels: Integers, schedule: Schedule, rate: float, settings: StepSettings, source: PerturbationSource
) -> tuple[list[StepOrder], StepSettings]:
    """Samples, labels and rate of each step, and the settings with a shift for this rate.

    `labels` are (samples,), `rate` is for the mean loss.
    """
    batches = list(schedule.indices(len(labels)))
    sizes = [len(indices) for indices in batches]
    rates, settings = settings.with_rates([rate] * schedule.steps, sizes, PerturbationTable(source))
    orders = [
        StepOrder(indices, labels[indices], rate_of_step) for indices, rate_of_step in zip(batches, rates, strict=True)
    ]
    return orders, settings


def take_steps(
    job: ZerothOrderJob,
    inputs: Integers,
    orders: Sequence[StepOrder],
    progress: ZerothOrderProgress | None = None,
) -> list[ZerothOrderStep]:
    """Take all steps and return the records of their projected gradients, in order."""
    slopes: list[ZerothOrderStep] = []
    for number, order in enumerate(orders, start=1):
        step = job.step(inputs[order.indices], order.labels, order.rate)
        slopes += step
        if progress:
            progress(number, step)
    return slopes


class IntegerTuning(IntegerRun):
    """Fine-tuning run of all parameters of a network in integers, forward pass included; used like `FineTuning`.

    The pre-trained module is not modified. `lanes` and `columns` are the size of the core's array. `integers` is the
    job, `state` the user's tensors before tuning, by name.

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
        float_module = described(network, module)
        self.network, self.stages, self.state = (
            network,
            stage_tensors(network, float_module),
            user_state(module, float_module),
        )
        self._order = ArrayOrder.of(network, lanes, columns, settings.split.cut)
        self.source = source_of(settings, self._order.mapping.width)
        self.integers = IntegerZerothOrder(
            deployed(network),
            folded(network, float_module),
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
        return self.integers.job

    @property
    def trained_parameters(self) -> int:
        return self.network.parameters

    @property
    def saturations(self) -> int:
        return self.integers.saturations

    def take_steps(self, progress: ZerothOrderProgress) -> None:
        self.integers.run(progress)

    def accuracy(self) -> float:
        return self.integers.accuracy(self.task.test)

    def held_out_loss(self) -> float:
        return self.integers.loss(self.task.test)

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Tuned state of the user's network; its unchanged batch norm folds to the tuned values in Q4.12.

        Where the batch norm cannot hold these values, see `StageTensors.returned`, the folded parameters alone.
        """
        values = values_of(self.integers.model.tuned(self.integers.job))
        before = {name: tensor.cpu().numpy() for name, tensor in self.state.items()}
        try:
            return {**before, **returned(self.stages, values, self.state)}
        except UserError:
            return {**by_stage(self.stages, values)}

    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        """Sum of the updates so far; ``stages`` is added to `run` where the parameters are folded."""
        shapes: list[tuple[str, tuple[int, ...]]] = []
        for stage, frozen in zip(self.stages, self.integers.model.frozen, strict=True):
            shapes += [(stage.weight_name, stage.given(frozen.weight).shape), (stage.bias_name, frozen.bias.shape)]
        total = self.integers.job.total.astype(np.int32)
        start = {**run, "stages": json.dumps([stage.described for stage in self.stages])}
        if all(stage.bias and not stage.norm and stage.order is None for stage in self.stages):
            del start["stages"]  # the stages follow from the parameters
        return Delta(
            self.source, DELTA, tuple(shapes), stages_digest(self.stages, self.state), total, self._order, start
        )


def core_settings(settings: ZoSettings) -> ZoSettings:
    """Settings with a core's defaults: the integer engine, and `CORE_PARAMETERS` of the generator."""
    parameters = (*CORE_PARAMETERS.get(settings.generator_name, ()), *settings.parameters)
    return replace(settings, engine=settings.engine or "golden", parameters=parameters)


def check_settings(settings: ZoSettings, samples: int) -> None:
    """Refuse settings that a core's integers cannot run on a number of samples.

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
    """Refuse steps that the integer job cannot run: `check_settings` without the check of the method."""
    if settings.queries > 1:
        raise UserError(f"queries = {settings.queries}: a core counts perturbations of a step with --p1 and --p2")
    steps = step_settings(settings)
    sizes = [len(indices) for indices in settings.schedule.indices(samples)]
    if max(sizes) > LARGEST_BATCH:
        raise UserError(f"batch = {max(sizes)}: a core's step has at most {LARGEST_BATCH} samples")
    source = integer_source_of(settings.generator_name, settings.parameters)
    steps.with_rates([settings.rate] * len(sizes), sizes, PerturbationTable(source.spec))


def step_settings(settings: ZoSettings) -> StepSettings:
    """Settings of a core's steps, without their shift for the rate; see `eps_shift_of` for eps."""
    return StepSettings(eps_shift=eps_shift_of(settings.eps), split=settings.split)


def eps_shift_of(eps: float) -> int:
    """Shift for a length of a perturbation, a power of two.

    Raises
    ------
    UserError
        If eps is not a power of two, or out of range.
    """
    mantissa, exponent = frexp(eps)
    if mantissa != 0.5 or 1 - exponent not in EPS_SHIFTS:
        least, example, most = (2.0**-shift for shift in (EPS_SHIFTS[-1], 10, EPS_SHIFTS[0]))
        raise UserError(f"eps = {eps:g}: a core's is a power of two from {least} to {most}, such as {example}")
    return 1 - exponent


def source_of(settings: ZoSettings, width: int) -> Periodic:
    """Source of perturbations in words of `width` parameters.

    Raises
    ------
    UserError
        If the generator gives floats, or gives equal numbers to weights of different inputs.
    """
    source = integer_source_of(settings.generator_name, settings.parameters)
    check_full_rank(source.spec, width)
    return Periodic(source.spec, width, source.fraction)
