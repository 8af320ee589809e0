"""Fine-tune a pre-trained network on a drifted task, with any method and either engine."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from torch import nn

from ...datasets.dataset import Samples, Task
from ...errors import UserError
from ...fixed import Integers
from ...lora.adapters import rate_of
from ...models.network import Network, deployed
from ...models.sequential import deployed_module, folded
from ...models.torch_layers import torch_layers
from ...rng.urng import UrngSpec
from .. import metrics
from ..batches import epoch_batches
from .backpropagation import PropagateEngine
from .engine import Engine, Tensors, initial_adapters
from .integer import IntegerEngine
from .methods import METHODS, AdapterPlacement, adapter_shapes, method_of
from .skip import SkipEngine

ENGINES = ("float", "golden", "rtl")
"""float32; the integers of the hardware; the same integers, for which `fabtune tune` runs the hardware beside them."""
MAXIMUM_RANK = 64
STOCHASTIC = UrngSpec(bits=14)
"""The generator whose numbers round updates where that is asked for."""


@dataclass(frozen=True)
class Settings:
    """How to fine-tune.

    Parameters
    ----------
    method : str
        A name in `METHODS`.
    engine : "float", "golden" or "rtl"
        One of `ENGINES`.
    epochs, batch : int
    rate : float
        Learning rate of plain gradient descent on the mean of a batch. A smaller last batch steps with the same
        ``rate / batch`` for each sample: its few samples would weigh more than the others' otherwise, and come last.
    rank : int
        Of the adapters.
    seed : int
        Of the adapters and the order of the samples.
    stochastic : bool
        Integer updates are rounded stochastically, not to nearest.
    products : str
        Who multiplies integers; see `Job`.
    """

    method: str = "instantft"
    engine: str = "float"
    epochs: int = 10
    batch: int = 20
    rate: float = 0.1
    rank: int = 4
    seed: int = 0
    stochastic: bool = False
    products: str = "blas"

    def __post_init__(self) -> None:
        method = method_of(self.method)
        if self.engine not in ENGINES:
            raise UserError(f"there is no engine {self.engine!r}; there are: {', '.join(ENGINES)}")
        if self.engine != "float" and not method.frozen:
            able = [one.name for one in METHODS.values() if one.frozen]
            raise UserError(
                f"{method.title} changes the network itself, which the integer engine keeps as it is: "
                f"take --engine float, or --method {', '.join(able)}"
            )
        if self.stochastic and self.engine == "float":
            raise UserError("stochastic rounding belongs to --engine golden: floats are not rounded")
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: at least 1")
        if not 1 <= self.rank <= MAXIMUM_RANK:
            raise UserError(f"rank = {self.rank}: an adapter's is 1 to {MAXIMUM_RANK}; the papers' is 4")
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise UserError(f"rate = {self.rate}: a learning rate is above 0")
        if self.engine != "float":
            rate_of(self.rate, self.batch)

    def batches(self, samples: int) -> list[list[Integers]]:
        """Indices of each batch of each epoch over so many samples."""
        return epoch_batches(samples, self.batch, self.epochs, self.seed)


@dataclass(frozen=True)
class Epoch:
    """Mean cross entropy and fraction right while an epoch learned; the fraction right of held-out samples after it."""

    loss: float
    accuracy: float
    held_out: float | None = None


@dataclass
class Result:
    """What fine-tuning gave.

    Parameters
    ----------
    accuracy_before, accuracy_after : float
        Fractions, of held-out samples, by the same engine.
    seconds : float
        Of fine-tuning alone: no pre-training, no test.
    cache_bytes, saturations : int
    tensors : dict of str to array
        What was trained.
    epochs : list of Epoch
    """

    accuracy_before: float
    accuracy_after: float
    seconds: float
    cache_bytes: int
    saturations: int
    tensors: Tensors
    epochs: list[Epoch] = field(default_factory=list)

    @property
    def trained_parameters(self) -> int:
        """How many numbers were trained."""
        return sum(one.size for one in self.tensors.values())

    @property
    def curve(self) -> list[float]:
        """Accuracy on held-out samples before, and after each epoch that was watched."""
        return [self.accuracy_before, *(epoch.held_out for epoch in self.epochs if epoch.held_out is not None)]


def engine_of(network: Network, module: nn.Sequential, settings: Settings, samples: int) -> Engine:
    """The engine for a pre-trained network and a fine-tuning set of so many samples; `module` itself stays as it is."""
    method = method_of(settings.method)
    shapes = adapter_shapes(network, method, settings.rank)
    rng = np.random.default_rng([settings.seed, 1])
    a = initial_adapters(tuple(shape.inputs for shape in shapes), settings.rank, rng)
    if settings.engine != "float":
        urng = STOCHASTIC if settings.stochastic else None
        parameters = folded(network, module)
        rate = rate_of(settings.rate, settings.batch)
        return IntegerEngine(deployed(network), parameters, method, a, rate, samples, urng, settings.products)
    if method.adapters is AdapterPlacement.SKIP:
        frozen = deployed_module(network, module)
        return SkipEngine(deployed(network), frozen, a, settings.rate / settings.batch, method.cache, samples)
    beside = {shape.stage: (one, shape.outputs) for shape, one in zip(shapes, a, strict=True)}
    layers = (leaf.module for leaf in torch_layers(copy.deepcopy(module), network.name))
    return PropagateEngine(nn.Sequential(*layers), method, beside, settings.rate / settings.batch)


def tune(
    network: Network,
    module: nn.Sequential,
    task: Task,
    settings: Settings,
    progress: Callable[[Epoch], None] | None = None,
    watch: bool = False,
    before: float | None = None,
    engine: Engine | None = None,
) -> Result:
    """Fine-tune.

    Parameters
    ----------
    network : Network
    module : torch.nn.Sequential
        Pre-trained; stays as it is.
    task : Task
    settings : Settings
    progress : callable, optional
        Told after each epoch.
    watch : bool
        Test on held-out samples after each epoch, too.
    before : float, optional
        Accuracy before, where it is known already.
    engine : Engine, optional
        Another than `engine_of` would make.

    Raises
    ------
    UserError
        If network, samples and settings do not go together, or the loss is no longer a number.
    """
    engine = engine or engine_of(network, module, settings, len(task.tune))
    before = accuracy(engine, task.test) if before is None else before
    epochs: list[Epoch] = []
    seconds = 0.0
    for number, order in enumerate(settings.batches(len(task.tune))):
        started = time.perf_counter()
        logits = np.empty((len(task.tune), network.classes), np.float32)
        for indices in order:
            logits[indices] = engine.batch(task.tune[indices], indices)
        seconds += time.perf_counter() - started
        loss = metrics.cross_entropy(logits, task.tune.labels)
        if not np.isfinite(loss):
            raise UserError(f"fine-tuning diverged in epoch {number + 1}: the loss is {loss}; lower the rate")
        right = metrics.accuracy(logits, task.tune.labels)
        epochs.append(Epoch(loss, right, accuracy(engine, task.test) if watch else None))
        if progress:
            progress(epochs[-1])
    after = accuracy(engine, task.test)
    return Result(before, after, seconds, engine.cache_bytes, engine.saturations, engine.tensors(), epochs)


def accuracy(engine: Engine, samples: Samples, at_once: int = 100) -> float:
    """Fraction of samples with the right label."""
    right = 0
    for start in range(0, len(samples), at_once):
        part = samples[start : start + at_once]
        right += int(np.count_nonzero(engine.logits(part).argmax(axis=1) == part.labels))
    return right / len(samples)
