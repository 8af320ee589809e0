"""Fine-tuning of a pre-trained network on a drifted task, with any method and engine."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ...datasets.dataset import Samples, Task
from ...errors import UserError
from ...fixed import Integers
from ...importers.layers.folding import deployed_module, described, folded
from ...importers.layers.own_tensors import stage_tensors, user_state
from ...lora.adapters import rate_of
from ...lora.early_stop import LARGEST_SUM, LOSS, EarlyStop
from ...lora.update_noise import NOISE_NUMBER_BITS
from ...models.network import Network, deployed
from ...rng.urng import UrngSpec
from .. import metrics
from ..batches import epoch_batches
from ..learning_rate import rate_factors, refuse_rate
from .backpropagation import PropagateEngine
from .engine import Engine, Tensors, codec_of, initial_adapters
from .integer import IntegerEngine
from .methods import DEFAULT, METHODS, adapter_shapes, method_of
from .skip import SkipEngine

ENGINES = ("float", "golden", "rtl", "golden-core")
"""float32; the hardware's integers; these integers with a simulation of the RTL (`fabtune tune`)."""
MAXIMUM_RANK = 64
STOCHASTIC = UrngSpec(bits=NOISE_NUMBER_BITS)
"""Generator for stochastic rounding of updates; a core's generator has one number per parallel update."""


@dataclass(frozen=True)
class AdapterSettings:
    """Settings of fine-tuning.

    With a validation or patience, the result has the parameters of the epoch with the smallest loss, the first among
    equals. The loss is the validation's, or without one the epoch's.

    Parameters
    ----------
    method : str
        Name in `METHODS`.
    engine : "float", "golden", "rtl" or "golden-core"
        One of `ENGINES`.
    rate : float
        Learning rate of plain gradient descent on the mean loss of a batch. A smaller last batch uses the same ``rate /
        batch`` for each sample: all samples have equal weight.
    rank : int
        Rank of the adapters.
    seed : int
        Seed of the initial adapters and of the sample order.
    stochastic : bool
        Round integer updates stochastically instead of to nearest.
    schedule : str
        Schedule of the learning rate, see `rate_factors`.
    stop_at : float, optional
        Mean loss of an epoch at which fine-tuning ends; with a validation, the loss of its samples.
    validate : float
        Share of the samples kept for validation after each epoch, 0 for none.
    patience : int
        Fine-tuning ends after this many epochs in a row without a new smallest loss; 0 for no limit.

    Raises
    ------
    UserError
        If a setting is unknown, out of range or not possible with the engine.
    """

    method: str = DEFAULT
    engine: str = "float"
    epochs: int = 10
    batch: int = 20
    rate: float = 0.1
    rank: int = 4
    seed: int = 0
    stochastic: bool = False
    schedule: str = "constant"
    stop_at: float | None = None
    validate: float = 0.0
    patience: int = 0

    def __post_init__(self) -> None:
        method = method_of(self.method)
        if self.engine not in ENGINES:
            raise UserError(f"there is no engine {self.engine!r}; there are: {', '.join(ENGINES)}")
        if self.engine != "float" and method.propagates:
            able = [other.name for other in METHODS.values() if not other.propagates]
            raise UserError(
                f"{method.title} changes more than the last layer, which the integer engine cannot: "
                f"take --engine float, or --method {', '.join(able)}"
            )
        if self.stochastic and self.engine == "float":
            raise UserError("stochastic rounding is for --engine golden or rtl: floats are not rounded")
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: at least 1")
        if not 1 <= self.rank <= MAXIMUM_RANK:
            raise UserError(f"rank = {self.rank}: an adapter's is 1 to {MAXIMUM_RANK}; the papers' is 4")
        refuse_rate(self.rate)
        if self.stop_at is not None and not (np.isfinite(self.stop_at) and self.stop_at >= 0):
            raise UserError(f"stop_at = {self.stop_at}: a loss is 0 or more")
        if not 0 <= self.validate < 1:
            raise UserError(f"validate = {self.validate}: a share of the samples is 0 to less than 1")
        self.early_stop(1)
        if self.engine != "float":
            rate_of(self.rate, self.batch)
        rate_factors(self.schedule, self.epochs, 1)

    @property
    def keeps_best(self) -> bool:
        """True if the result has the parameters of the epoch with the smallest loss, not of the last epoch."""
        return self.validate > 0 or self.patience > 0

    def split(self, samples: int) -> tuple[Integers, Integers]:
        """Sorted indices of the samples for training and for validation.

        Raises
        ------
        UserError
            If either part is empty although a validation is set.
        """
        if not self.validate:
            return np.arange(samples), np.arange(0)
        count = round(self.validate * samples)
        if not 0 < count < samples:
            raise UserError(f"validate = {self.validate}: {count} of {samples} samples; give a share of 1 to all but 1")
        order = np.random.default_rng([self.seed, 2]).permutation(samples)
        return np.sort(order[count:]), np.sort(order[:count])

    def batches(self, samples: int) -> list[list[Integers]]:
        """Sample indices of each batch of each epoch."""
        learnt, _ = self.split(samples)
        epochs = epoch_batches(len(learnt), self.batch, self.epochs, self.seed)
        return [[learnt[batch] for batch in epoch] for epoch in epochs]

    def early_stop(self, samples: int) -> EarlyStop:
        """Rule that ends fine-tuning, on losses in the last places of `epoch_loss.LOSS`."""
        counted = round(self.validate * samples) or samples
        limit = None if self.stop_at is None else min(int(self.stop_at * counted * 2**LOSS.fraction), LARGEST_SUM)
        return EarlyStop(limit, self.patience)

    def factors(self, samples: int) -> NDArray[np.float64]:
        """Factor of the learning rate of each batch of each epoch, (epochs, batches)."""
        batches = -(-len(self.split(samples)[0]) // self.batch)
        return rate_factors(self.schedule, self.epochs, batches).reshape(self.epochs, -1)


@dataclass(frozen=True)
class Epoch:
    """Metrics of one epoch.

    Parameters
    ----------
    loss, accuracy : float
        Mean cross entropy and accuracy on the training samples, from the logits before each step.
    validation : tuple of (float, float), optional
        Mean cross entropy and accuracy on the validation samples after the epoch.
    held_out : float, optional
        Accuracy on held-out samples after the epoch, where measured.
    """

    loss: float
    accuracy: float
    validation: tuple[float, float] | None = None
    held_out: float | None = None


@dataclass
class AdapterResult:
    """Result of fine-tuning.

    Parameters
    ----------
    accuracy_before, accuracy_after : float
        Fractions of held-out samples classified correctly, by the engine that tuned.
    seconds : float
        Time of fine-tuning alone, without pre-training and tests.
    tensors : dict of str to array
        Trained parameters, and each fixed A.
    kept_epoch : int
        Number, from 1, of the epoch whose parameters are the result, see `AdapterSettings`.
    """

    accuracy_before: float
    accuracy_after: float
    seconds: float
    cache_bytes: int
    saturations: int
    tensors: Tensors
    trained_parameters: int
    epochs: list[Epoch] = field(default_factory=list)
    kept_epoch: int = 0

    @property
    def curve(self) -> list[float]:
        """Accuracy on held-out samples before fine-tuning and after each measured epoch."""
        return [self.accuracy_before, *(epoch.held_out for epoch in self.epochs if epoch.held_out is not None)]


def engine_of(network: Network, module: nn.Module, settings: AdapterSettings, samples: int) -> Engine:
    """Engine for a pre-trained module, which is not modified; `samples` is the number of cache entries."""
    method = method_of(settings.method)
    shapes = adapter_shapes(network, method, settings.rank)
    rng = np.random.default_rng([settings.seed, 1])
    a = initial_adapters(tuple(shape.inputs for shape in shapes), settings.rank, rng)
    if settings.engine != "float":
        urng = STOCHASTIC if settings.stochastic else None
        parameters = folded(network, module)
        rate = rate_of(settings.rate, settings.batch)
        return IntegerEngine(deployed(network), parameters, method, a, settings.rank, rate, samples, urng)
    if method.skips:
        frozen, plain = deployed_module(network, module), deployed(network)
        return SkipEngine(plain, frozen, a, settings.rate / settings.batch, codec_of(plain, method), samples)
    parallel = {shape.stage: (values, shape.outputs) for shape, values in zip(shapes, a, strict=True)}
    trained = copy.deepcopy(described(network, module))
    return PropagateEngine(trained, method, parallel, settings.rate / settings.batch)


def tune(
    network: Network,
    module: nn.Module,
    task: Task,
    settings: AdapterSettings,
    progress: Callable[[Epoch], None] | None = None,
    watch: bool = False,
    before: float | None = None,
    engine: Engine | None = None,
) -> AdapterResult:
    """Fine-tune a pre-trained module, which is not modified.

    Parameters
    ----------
    progress : callable, optional
        Called after each epoch.
    watch : bool
        Measure the accuracy on held-out samples after each epoch, too.
    before : float, optional
        Accuracy before fine-tuning, if known.
    engine : Engine, optional
        By default from `engine_of`.

    Raises
    ------
    UserError
        If network, samples and settings do not fit together, or the loss diverges.
    """
    engine = engine or engine_of(network, module, settings, len(task.tune))
    before = accuracy(engine, task.test) if before is None else before
    samples, epochs, seconds, kept_epoch = len(task.tune), [], 0.0, 0
    kept: list[NDArray[np.generic]] = []
    factors, stop = settings.factors(samples).tolist(), settings.early_stop(samples)
    learnt, checked = settings.split(samples)
    logits = np.empty((samples, network.classes), np.float32)

    def measured(indices: Integers) -> tuple[float, float]:
        labels = task.tune.labels[indices]
        return metrics.cross_entropy(logits[indices], labels), metrics.accuracy(logits[indices], labels)

    for number, order in enumerate(settings.batches(samples)):
        started = time.perf_counter()
        for indices, factor in zip(order, factors[number], strict=True):
            logits[indices] = engine.batch(task.tune[indices], indices, factor)
        for first in range(0, len(checked), settings.batch):
            indices = checked[first : first + settings.batch]
            logits[indices] = engine.validate(task.tune[indices], indices)
        seconds += time.perf_counter() - started
        loss, correct = measured(learnt)
        metrics.refuse_diverged(loss, f"fine-tuning diverged in epoch {number + 1}", f"lower the rate {settings.rate}")
        validation = measured(checked) if len(checked) else None
        epochs.append(Epoch(loss, correct, validation, accuracy(engine, task.test) if watch else None))
        if progress:
            progress(epochs[-1])
        total = validation[0] * len(checked) if validation else loss * samples
        ends = stop.ends(engine.end_epoch(total, validated=validation is not None) * 2**LOSS.fraction)
        if not settings.keeps_best or stop.waited == 0:
            kept_epoch, kept = number + 1, engine.kept() if settings.keeps_best else []
        if ends:
            break
    if kept:
        engine.restore(kept)
    tensors, method = engine.tensors(), method_of(settings.method)
    return AdapterResult(
        accuracy_before=before,
        accuracy_after=accuracy(engine, task.test),
        seconds=seconds,
        cache_bytes=engine.cache_bytes,
        saturations=engine.saturations,
        tensors=tensors,
        trained_parameters=sum(values.size for name, values in tensors.items() if method.trains(name)),
        epochs=epochs,
        kept_epoch=kept_epoch,
    )


class AdapterTuning:
    """Fine-tuning run with gradients, by any engine; used like the zeroth order's `FineTuning`.

    The pre-trained module is not modified; `engine` holds the trained parameters, `state` the user's tensors before
    tuning.
    """

    def __init__(self, network: Network, module: nn.Module, task: Task, settings: AdapterSettings) -> None:
        self.network, self.task, self.settings = network, task, settings
        self._module = float_module = described(network, module)
        self.stages, self.state = stage_tensors(network, float_module), user_state(module, float_module)
        self.engine = engine_of(network, float_module, settings, len(task.tune))

    def run(self, progress: Callable[[Epoch], None] | None = None, watch: bool = False) -> AdapterResult:
        return tune(self.network, self._module, self.task, self.settings, progress, watch, engine=self.engine)

    def held_out_loss(self) -> float:
        logits = np.concatenate([self.engine.logits(part) for part in _parts(self.task.test)])
        return metrics.cross_entropy(logits, self.task.test.labels)


def accuracy(engine: Engine, samples: Samples) -> float:
    """Fraction of samples that an engine classifies correctly."""
    correct = (np.count_nonzero(engine.logits(part).argmax(axis=1) == part.labels) for part in _parts(samples))
    return int(sum(correct)) / len(samples)


def _parts(samples: Samples) -> Iterator[Samples]:
    return (samples[start : start + 100] for start in range(0, len(samples), 100))
