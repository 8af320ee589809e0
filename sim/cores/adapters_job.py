"""Fine-tuning of adapters as a job for the host driver of any core that trains adapters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...boards.host.adapters import AdapterHost, Tuned
from ...boards.host.driver import Core
from ...golden.cores.adapters.spec import AdapterCoreSpec
from ...golden.cores.golden_core import GoldenCore, golden_core
from ...golden.fixed import Integers
from ...golden.lora.adapters import Adapters
from ...golden.lora.memory_layout import JobLayout
from ...golden.nn.arithmetic.forward import StageIntegers
from ...golden.train.adapters.integer import IntegerEngine
from ...golden.train.adapters.tune import AdapterResult, AdapterTuning, accuracy
from ..compiled.playing import Played, Unit
from ..compiled.session import Bytes


@dataclass(frozen=True, eq=False)
class TuningJob:
    """Fine-tuning job, see `compiled.playing.HostJob`.

    Parameters
    ----------
    frozen : sequence of StageIntegers
        Weights and biases of the frozen network, Q4.12.
    adapters : Adapters
        Initial adapters, Q4.12; not changed.
    inputs : array of int, (n, *input_shape)
        Bytes or Q8.16, as the core was generated.
    labels : array of int, (n,)
    epochs : sequence of sequences of array of int
        Sample indices of each batch of each epoch.
    rate : int or sequence of int
        Learning rate of a sample, from `golden.lora.adapters.rate_of`; or a list with a rate for each batch of all
        epochs.
    raw : bool
        The cache holds Q8.16 (Skip2-LoRA) instead of NF4 (InstantFT); true for a core without a cache.
    stop_loss : int, optional
        The job ends with the first epoch whose loss (of the validation, if any) is at most this, see
        `golden.lora.early_stop`.
    validation : array of int, optional
        Indices of the samples of the validation after each epoch.
    patience : int
        The job ends after this number of successive losses above the smallest; 0: never.
    logits : bool
        The core writes the logits of every schedule entry.
    """

    frozen: Sequence[StageIntegers]
    adapters: Adapters
    inputs: NDArray[np.integer]
    labels: Integers
    epochs: Sequence[Sequence[Integers]]
    rate: int | Sequence[int]
    raw: bool = False
    stop_loss: int | None = None
    validation: Integers | None = None
    patience: int = 0
    logits: bool = False
    unit: ClassVar[Unit] = "batches"

    @property
    def batches_of_epoch(self) -> int:
        """Batches of an epoch, batches of the validation included."""
        size = max(map(len, self.epochs[0]))
        return len(self.epochs[0]) + (0 if self.validation is None else -(-len(self.validation) // size))

    def golden(self, spec: AdapterCoreSpec) -> GoldenCore[Any]:
        return golden_core(spec)

    def host(self, core: Core, spec: AdapterCoreSpec) -> AdapterHost:
        made: AdapterHost = spec.part("boards", "job", "HOST")(core, spec, len(self.inputs), self.raw)
        return made

    def load(self, host: Any) -> None:
        host.load(self.frozen)

    def start(self, host: AdapterHost) -> Bytes:
        host.load_adapters(self.adapters)
        return host.layout.adapters(self.adapters).image

    def run(self, host: AdapterHost) -> Tuned:
        ends = (self.stop_loss, self.validation, self.patience)
        return host.tune(self.inputs, self.labels, self.epochs, self.rate, self.logits, *ends)

    def tuned(self, host: AdapterHost) -> Adapters:
        return host.adapters()

    def forget(self, host: AdapterHost) -> None:
        host.forget()

    def scratch(self, spec: AdapterCoreSpec) -> tuple[str, ...]:
        """Region of records outside the cache; batches write to its two halves in turn."""
        return ("cache", "cache #2") if spec.cache == "none" else ("cache #2",)


def adopt_adapters(
    tuning: AdapterTuning, result: AdapterResult, job: TuningJob, layout: JobLayout, played: Played
) -> bool:
    """Replace a job's adapters by a core's, of the kept epoch, and test them; return whether the two differ."""
    engine, adapters = tuning.engine, played.tuned
    assert isinstance(engine, IntegerEngine), "a core's engine"
    rows = (result.kept_epoch or 0) * job.batches_of_epoch
    if tuning.settings.keeps_best and 0 < rows <= len(played.images):
        adapters = layout.adapters_of(played.images[rows - 1].copy())
    differs = not np.array_equal(engine.job.adapters.flat, adapters.flat)
    engine.job.adapters.flat[:] = adapters.flat
    result.accuracy_after = accuracy(engine, tuning.task.test)
    result.tensors = engine.tensors()
    return differs
