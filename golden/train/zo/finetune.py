"""Zeroth-order fine-tuning of an objective: MeZO, PeZO with either strategy, or sensitive weights alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import frexp, isfinite
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import UserError
from ...fixed import Format, Integers
from ...zo.split import WHOLE, Split
from ..learning_rate import refuse_rate
from ..sparse import Mask, random_mask, sensitive, sparsify, squared_gradients
from ..sparse.masks import count_of
from .delta_file import Delta, base_digest
from .methods import EPS, METHODS, integer_source_of, source_of, start_of
from .optimiser import ZerothOrder
from .periodic import Periodic
from .schedule import Schedule, descend
from .sources import Perturbations

ENGINES = ("float", "golden", "rtl", "golden-core")
"""Float weights; integers; integers with a simulation of a core's RTL (`fabtune tune`).

`IntegerTuning` tunes all parameters of a network of layers with the hardware's integers, forward pass included.
`FineTuning` tunes any module: weights are integers modulo 2**32, converted to floats for the forward pass.
"""
MASKS = ("generic", "task", "random")


class Objective(Protocol):
    """A model with its tuning and test samples."""

    @property
    def module(self) -> nn.Module:
        """The model in evaluation mode; parameters that require gradients are tuned in place."""

    @property
    def samples(self) -> int:
        """Number of tuning samples."""

    def closure_of(self, indices: Integers) -> Callable[[], Tensor]:
        """Closure that returns the mean loss of the tuning samples with these indices."""

    def accuracy(self) -> float:
        """Fraction of held-out samples classified correctly."""

    def held_out_loss(self) -> float:
        """Mean loss of the held-out samples."""

    def losses(self, kind: Literal["generic", "task"]) -> Sequence[Callable[[], Tensor]]:
        """Losses that score weights' sensitivity, as closures: on pre-training data ("generic") or on the task."""


@dataclass(frozen=True)
class ZoSettings:
    """Settings of zeroth-order fine-tuning.

    Parameters
    ----------
    method : str
        Name in `METHODS`.
    rate, eps : float
        Learning rate and length of a perturbation.
    queries : int
        Perturbations per step.
    generator : str, optional
        Name in `GENERATORS`; by default the method's generator.
    parameters : tuple of str
        Generator parameters as ``NAME=VALUE``.
    engine : "float", "golden", "rtl" or "golden-core", optional
        One of `ENGINES`. Integer engines need a periodic generator, and are the default with one.
    mask : "generic", "task" or "random"
        Selection of the weights that the sparse method tunes.
    fraction : float
        Fraction of each linear layer's weights that the sparse method tunes.
    split : Split
        Perturbations of a step on a core.

    Raises
    ------
    UserError
        If a setting is unknown or out of range.
    """

    method: str = "pezo-otf"
    rate: float = 1e-4
    eps: float = EPS
    schedule: Schedule = field(default_factory=Schedule)
    queries: int = 1
    generator: str | None = None
    parameters: tuple[str, ...] = ()
    engine: str | None = None
    mask: str = "generic"
    fraction: float = 0.001
    split: Split = WHOLE

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UserError(f"there is no method {self.method!r}; there are: {', '.join(METHODS)}")
        if self.engine not in (None, *ENGINES):
            raise UserError(f"there is no engine {self.engine!r}; there are: {', '.join(ENGINES)}")
        refuse_rate(self.rate)
        if not (isfinite(self.eps) and self.eps > 0):
            raise UserError(f"eps = {self.eps}: the length of a perturbation is above 0")
        if self.mask not in MASKS:
            raise UserError(f"mask = {self.mask!r} is not one of {', '.join(MASKS)}")
        count_of(1, self.fraction)
        self.source()

    @property
    def generator_name(self) -> str:
        return self.generator or METHODS[self.method]

    def source(self) -> Perturbations:
        """New source of perturbations."""
        if self.engine in ENGINES[1:]:
            return integer_source_of(self.generator_name, self.parameters)
        return source_of(self.generator_name, self.schedule.seed, self.parameters)

    @property
    def sparse(self) -> bool:
        return self.method == "sparse-zo"

    @property
    def integers(self) -> bool:
        return self.engine != "float" and isinstance(self.source(), Periodic)

    @property
    def writes_deltas(self) -> bool:
        """True if a `Delta` holds all changes of the run: all parameters are tuned, as integers."""
        return not self.sparse and self.integers


@dataclass
class ZoResult:
    """Result of zeroth-order fine-tuning.

    Parameters
    ----------
    losses : list of float
        Loss of each step on its samples.
    curve : list of (int, float)
        Steps taken and the held-out accuracy after them, from 0 steps to all.
    seconds : float
        Time of the steps alone.
    directions : int or None
        Perturbations before the first repeats; None without repetition.
    tensors : dict of str to array
        Tuned parameters; for sparse layers also their indices.
    saturations : int, optional
        Clipped values, with an integer forward pass.
    """

    engine: str
    losses: list[float]
    curve: list[tuple[int, float]]
    seconds: float
    directions: int | None
    tensors: dict[str, NDArray[np.generic]]
    trained_parameters: int
    saturations: int | None = None

    @property
    def accuracy_before(self) -> float:
        """Held-out accuracy before the first step; with the sparse method the frozen weights are already in NF4."""
        return self.curve[0][1]

    @property
    def accuracy_after(self) -> float:
        return self.curve[-1][1]

    @property
    def quarter(self) -> int:
        """Steps of the first and of the last quarter, at least 1 each; they overlap only in a run of one step."""
        return max(len(self.losses) // 4, 1)

    @property
    def loss_first(self) -> float:
        """Mean loss of the first quarter of the steps."""
        return float(np.mean(self.losses[: self.quarter]))

    @property
    def loss_last(self) -> float:
        """Mean loss of the last quarter of the steps."""
        return float(np.mean(self.losses[-self.quarter :]))


StepProgress = Callable[[int, float, float | None], None]
"""Called after each step with its number from 1, its loss, and the held-out accuracy or None where not measured."""


class FineTuning:
    """Fine-tuning run of an objective; the sparse method splits layers into sensitive weights and NF4.

    `objective.module` is tuned in place. `masking` is called while sensitive weights are chosen, with the number of
    scored losses and their total.

    Attributes
    ----------
    settings : ZoSettings
        With the engine that runs.
    losses, curve
        As in `ZoResult`, up to the last completed step.
    moves : list of (int, int)
        Position and coefficient of each update of integer parameters.

    Raises
    ------
    UserError
        If settings and module do not fit together.
    """

    def __init__(
        self, objective: Objective, settings: ZoSettings, masking: Callable[[int, int], object] | None = None
    ) -> None:
        self.objective = objective
        self.schedule = settings.schedule
        self.losses: list[float] = []
        self.curve: list[tuple[int, float]] = []
        if settings.engine in ("rtl", "golden-core"):
            raise UserError(f"--engine {settings.engine} is for a network of layers: take --engine golden or float")
        if settings.sparse:
            sparsify(objective.module, mask_of(objective, settings, masking), unpacked=True)
        periodic = isinstance(settings.source(), Periodic)
        self.engine = settings.engine or ("golden" if periodic else "float")
        self.settings = settings = replace(settings, engine=self.engine)
        integers = self.engine == "golden"
        self.source = settings.source()
        self.moves: list[tuple[int, int]] = []
        self._base = base_digest(_trained(objective.module)) if settings.writes_deltas else ""
        self.optimiser = ZerothOrder(
            objective.module.parameters(),
            self.source,
            lr=settings.rate,
            eps=settings.eps,
            queries=settings.queries,
            format=format_of(objective.module) if integers else None,
            position=start_of(self.source, self.schedule.seed),
        )

    def run(self, progress: StepProgress | None = None, watch: int = 0) -> ZoResult:
        """Run all steps.

        `watch` is the number of steps between tests on held-out samples; with 0 the only tests are before and after the
        run.

        Raises
        ------
        UserError
            If the loss diverges.
        """
        objective = self.objective
        self.curve.append((0, objective.accuracy()))
        seconds, started = 0.0, time.perf_counter()
        for step, loss in enumerate(
            descend(self.optimiser, objective.closure_of, objective.samples, self.schedule), start=1
        ):
            seconds += time.perf_counter() - started
            self.losses.append(loss)
            self.moves += self.optimiser.moves
            accuracy = None
            if step == self.schedule.steps or (watch and step % watch == 0):
                accuracy = objective.accuracy()
                self.curve.append((step, accuracy))
            if progress:
                progress(step, loss, accuracy)
            started = time.perf_counter()
        count = self.optimiser.weights.count
        directions = self.source.directions(count) if isinstance(self.source, Periodic) else None
        return ZoResult(self.engine, self.losses, self.curve, seconds, directions, _tuned(objective.module), count)

    def held_out_loss(self) -> float:
        return self.objective.held_out_loss()

    def delta(self, run: Mapping[str, str] = MappingProxyType({})) -> Delta:
        """Sum of the updates so far; `run` is metadata of the run's start.

        Raises
        ------
        UserError
            If the parameters are floats, or layers are split into sensitive weights and NF4.
        """
        if not self._base or not isinstance(self.source, Periodic) or self.optimiser.format is None:
            raise UserError(
                "deltas are sums of integer updates of all parameters: take --engine golden and a pezo method"
            )
        tensors = _trained(self.objective.module)
        delta = Delta.of(tensors, self._base, self.source, self.optimiser.format, self.moves)
        return replace(delta, run=dict(run))


def fine_tune(
    objective: Objective, settings: ZoSettings, progress: StepProgress | None = None, watch: int = 0
) -> ZoResult:
    """Prepare an objective and run all steps, see `FineTuning`."""
    return FineTuning(objective, settings).run(progress, watch)


def format_of(module: nn.Module) -> Format:
    """Format of integer weights: Q4.28, or more integer bits so that the largest weight can double."""
    largest = max(
        (float(parameter.detach().abs().max()) for parameter in module.parameters() if parameter.requires_grad),
        default=0.0,
    )
    integer = max(4, frexp(largest)[1] + 2) if isfinite(largest) else 4
    return Format(integer, 32 - integer)


def mask_of(objective: Objective, settings: ZoSettings, masking: Callable[[int, int], object] | None = None) -> Mask:
    """Weights that the sparse method tunes; `masking` as in `FineTuning`."""
    if settings.mask == "random":
        return random_mask(objective.module, settings.fraction, settings.schedule.seed)
    kind: Literal["generic", "task"] = "generic" if settings.mask == "generic" else "task"
    losses = objective.losses(kind)

    def counted() -> Iterator[Callable[[], Tensor]]:
        for done, loss in enumerate(losses, 1):
            yield loss
            if masking:
                masking(done, len(losses))

    scores = squared_gradients(objective.module, counted())
    return sensitive({name: score for name, score in scores.items() if score.any()}, settings.fraction)


def _trained(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in module.named_parameters() if parameter.requires_grad}


def _tuned(module: nn.Module) -> dict[str, NDArray[np.generic]]:
    """Tuned parameters by name, with the indices of sparse layers."""
    tuned = _trained(module)
    indices = {
        name: tensor for name, tensor in module.named_buffers() if f"{name.removesuffix('indices')}values" in tuned
    }
    return {name: np.ascontiguousarray(tensor.cpu().numpy()) for name, tensor in (tuned | indices).items()}
