"""Fine-tune with a zeroth-order method: MeZO, PeZO with either strategy, or sensitive weights alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import frexp, isfinite
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import UserError
from ...fixed import Format, Integers
from ..sparse import Mask, random_mask, sensitive, sparsify, squared_gradients
from ..sparse.masks import count_of
from .methods import METHODS, integer_source_of, source_of, start_of
from .optimiser import ZerothOrder
from .periodic import Periodic
from .schedule import Schedule, descend
from .sources import Perturbations

ENGINES = ("float", "golden")
"""Weights as floats; as 32-bit integers that wrap, from whose values the floats are made."""
MASKS = ("generic", "task", "random")


class Objective(Protocol):
    """A model with what it is tuned on and tested with."""

    @property
    def module(self) -> nn.Module:
        """On evaluation; parameters that require gradients are tuned, in place."""

    @property
    def samples(self) -> int:
        """How many there are to tune on."""

    def closure_of(self, indices: Integers) -> Callable[[], Tensor]:
        """What gives the mean loss of samples, the same ones whenever it is called."""

    def right(self) -> float:
        """Fraction of held-out samples with the right label."""

    def losses(self, kind: Literal["generic", "task"]) -> Iterator[Callable[[], Tensor]]:
        """Losses whose gradients tell which weights are sensitive: of what it was pre-trained on, or of the task."""


@dataclass(frozen=True)
class ZoSettings:
    """How to fine-tune.

    Parameters
    ----------
    method : str
        A name in `METHODS`.
    rate, eps : float
        Learning rate, length of a perturbation.
    schedule : Schedule
    queries : int
        Perturbations a step.
    generator : str, optional
        Another than the method's, see `GENERATORS`.
    parameters : tuple of str
        ``NAME=VALUE`` for the generator.
    engine : "float" or "golden", optional
        One of `ENGINES`; "golden" needs a periodic generator and is the default where there is one.
    mask : "generic", "task" or "random"
        What the sparse method tunes.
    fraction : float
        Of each linear layer's weights, for the sparse method.
    """

    method: str = "pezo-otf"
    rate: float = 1e-4
    eps: float = 1e-3
    schedule: Schedule = field(default_factory=Schedule)
    queries: int = 1
    generator: str | None = None
    parameters: tuple[str, ...] = ()
    engine: str | None = None
    mask: str = "generic"
    fraction: float = 0.001

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UserError(f"there is no method {self.method!r}; there are: {', '.join(METHODS)}")
        if self.engine not in (None, *ENGINES):
            raise UserError(f"{self.method} runs with --engine {' or '.join(ENGINES)}, not {self.engine!r}")
        if not (isfinite(self.rate) and self.rate > 0):
            raise UserError(f"rate = {self.rate}: a learning rate is above 0")
        if not (isfinite(self.eps) and self.eps > 0):
            raise UserError(f"eps = {self.eps}: the length of a perturbation is above 0")
        if self.mask not in MASKS:
            raise UserError(f"mask = {self.mask!r} is not one of {', '.join(MASKS)}")
        count_of(1, self.fraction)
        self.source()

    @property
    def drawn_from(self) -> str:
        """The generator."""
        return self.generator or METHODS[self.method]

    def source(self) -> Perturbations:
        """What perturbations are read from."""
        if self.engine == "golden":
            return integer_source_of(self.drawn_from, self.parameters)
        return source_of(self.drawn_from, self.schedule.seed, self.parameters)

    @property
    def sparse(self) -> bool:
        """Whether only sensitive weights are tuned."""
        return self.method == "sparse-zo"


@dataclass
class ZoResult:
    """What fine-tuning gave.

    Parameters
    ----------
    engine : str
        That ran.
    losses : list of float
        That each step saw, on its own samples.
    curve : list of (int, float)
        Steps and the fraction of held-out samples that are right then, from before the first step to after the last.
    seconds : float
        Of the steps alone.
    directions : int or None
        Perturbations before the first returns; None where they are independent.
    tensors : dict of str to array
        What was tuned, and of sparse layers where it stands.
    trained_parameters : int
    """

    engine: str
    losses: list[float]
    curve: list[tuple[int, float]]
    seconds: float
    directions: int | None
    tensors: dict[str, NDArray[np.generic]]
    trained_parameters: int

    @property
    def accuracy_before(self) -> float:
        """Fraction right; before sparse tuning, with the rest in NF4 already."""
        return self.curve[0][1]

    @property
    def accuracy_after(self) -> float:
        """Fraction right."""
        return self.curve[-1][1]

    @property
    def loss_before(self) -> float:
        """Mean loss of the first 50 steps."""
        return float(np.mean(self.losses[:50]))

    @property
    def loss_after(self) -> float:
        """Mean loss of the last 50 steps."""
        return float(np.mean(self.losses[-50:]))


Told = Callable[[int, float, float | None], None]
"""Told of each step: its number, from 1, its loss, and the accuracy after it where that was measured."""


class FineTuning:
    """A objective, made ready: with sensitive weights apart where the method tunes them alone.

    Parameters
    ----------
    objective : Objective
        Its module is tuned in place.
    settings : ZoSettings

    Attributes
    ----------
    losses : list of float
    curve : list of (int, float)
        As in `ZoResult`, as far as `run` came.

    Raises
    ------
    UserError
        If settings and module do not go together.
    """

    def __init__(self, objective: Objective, settings: ZoSettings) -> None:
        self.objective = objective
        self.schedule = settings.schedule
        self.losses: list[float] = []
        self.curve: list[tuple[int, float]] = []
        if settings.sparse:
            sparsify(objective.module, mask_of(objective, settings), unpacked=True)
        periodic = isinstance(settings.source(), Periodic)
        self.engine = settings.engine or ("golden" if periodic else "float")
        settings = replace(settings, engine=self.engine)
        integers = self.engine == "golden"
        self.source = settings.source()
        self.optimiser = ZerothOrder(
            objective.module.parameters(),
            self.source,
            lr=settings.rate,
            eps=settings.eps,
            queries=settings.queries,
            format=format_of(objective.module) if integers else None,
            position=start_of(self.source, self.schedule.seed),
        )

    def run(self, told: Told | None = None, watch: int = 0) -> ZoResult:
        """Take all steps.

        Parameters
        ----------
        told : callable, optional
        watch : int
            Steps between two tests; 0 for one at the end.

        Raises
        ------
        UserError
            If the loss is no longer a number.
        """
        objective = self.objective
        self.curve.append((0, objective.right()))
        seconds, started = 0.0, time.perf_counter()
        for step, loss in enumerate(
            descend(self.optimiser, objective.closure_of, objective.samples, self.schedule), start=1
        ):
            seconds += time.perf_counter() - started
            self.losses.append(loss)
            right = None
            if step == self.schedule.steps or (watch and step % watch == 0):
                right = objective.right()
                self.curve.append((step, right))
            if told:
                told(step, loss, right)
            started = time.perf_counter()
        count = self.optimiser.weights.count
        directions = self.source.directions(count) if isinstance(self.source, Periodic) else None
        return ZoResult(self.engine, self.losses, self.curve, seconds, directions, _tuned(objective.module), count)


def fine_tune(objective: Objective, settings: ZoSettings, told: Told | None = None, watch: int = 0) -> ZoResult:
    """Make ready and take all steps, see `FineTuning`."""
    return FineTuning(objective, settings).run(told, watch)


def format_of(module: nn.Module) -> Format:
    """Of integer weights: Q4.28, or with as many more integer bits as the largest has room to double."""
    largest = max((float(one.detach().abs().max()) for one in module.parameters() if one.requires_grad), default=0.0)
    integer = max(4, frexp(largest)[1] + 2) if isfinite(largest) else 4
    return Format(integer, 32 - integer)


def mask_of(objective: Objective, settings: ZoSettings) -> Mask:
    """The sensitive weights, or as many random ones."""
    if settings.mask == "random":
        return random_mask(objective.module, settings.fraction, settings.schedule.seed)
    kind: Literal["generic", "task"] = "generic" if settings.mask == "generic" else "task"
    scores = squared_gradients(objective.module, objective.losses(kind))
    return sensitive({name: score for name, score in scores.items() if score.any()}, settings.fraction)


def _tuned(module: nn.Module) -> dict[str, NDArray[np.generic]]:
    """Parameters that were tuned, and beside a sparse layer's values where they stand."""
    tuned = {name: one.detach() for name, one in module.named_parameters() if one.requires_grad}
    places = {name: one for name, one in module.named_buffers() if f"{name.removesuffix('indices')}values" in tuned}
    return {name: np.ascontiguousarray(one.cpu().numpy()) for name, one in (tuned | places).items()}
