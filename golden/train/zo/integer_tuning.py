"""Zeroth-order fine-tuning of a network in a core's integers: settings, progress, tuned parameters and delta."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import frexp
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ...datasets.dataset import Task
from ...errors import UserError
from ...importers.layers.folding import described, folded
from ...importers.layers.own_tensors import by_stage, returned, stage_tensors, user_state
from ...models.network import Network, deployed
from ...rng.perturbation import check_full_rank
from ...zo.coefficient import LARGEST_BATCH
from ...zo.deltas import DELTA, PerturbationTable
from ...zo.job import ZerothOrderJob
from ...zo.step_settings import EPS_SHIFTS, StepSettings
from ..conversion import values_of
from .array_order import ArrayOrder
from .delta_file import Delta, stages_digest
from .finetune import ZoSettings
from .integer import IntegerZerothOrder, ZerothOrderProgress
from .integer_run import IntegerRun
from .methods import CORE_PARAMETERS, integer_source_of, start_of
from .periodic import Periodic


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
