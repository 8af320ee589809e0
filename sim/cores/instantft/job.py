"""Fine-tuning as a job for the host driver of `instantft`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ....boards.cores.instantft.job import FineTuner
from ....boards.host.adapters import Tuned
from ....boards.host.driver import Core
from ....golden.cores.instantft.golden_core import GoldenInstantft
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.fixed import Integers
from ....golden.lora.adapters import Adapters
from ....golden.nn.arithmetic.forward import StageIntegers
from ...compiled.playing import Unit
from ...compiled.session import Bytes


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
        Learning rate of a sample, from `golden.lora.adapters.rate_of`; or one for each batch of all epochs.
    raw : bool
        The cache holds Q8.16 (Skip2-LoRA) instead of NF4 (InstantFT); true for a core without a cache.
    stop_loss : int, optional
        Largest loss of an epoch, or of its validation, that ends the job, see `golden.lora.early_stop`.
    validation : array of int, optional
        Indices of the samples of the validation after each epoch.
    patience : int
        Successive losses above the smallest one that end the job; 0: any number.
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
        """Batches of an epoch, those of its validation included."""
        size = max(map(len, self.epochs[0]))
        return len(self.epochs[0]) + (0 if self.validation is None else -(-len(self.validation) // size))

    def golden(self, spec: InstantftSpec) -> GoldenInstantft:
        return GoldenInstantft(spec)

    def host(self, core: Core, spec: InstantftSpec) -> FineTuner:
        return FineTuner(core, spec, len(self.inputs), self.raw)

    def load(self, host: FineTuner) -> None:
        host.load(self.frozen)

    def start(self, host: FineTuner) -> Bytes:
        host.load_adapters(self.adapters)
        return host.layout.adapters(self.adapters).image

    def run(self, host: FineTuner) -> Tuned:
        ends = (self.stop_loss, self.validation, self.patience)
        return host.tune(self.inputs, self.labels, self.epochs, self.rate, self.logits, *ends)

    def tuned(self, host: FineTuner) -> Adapters:
        return host.adapters()

    def forget(self, host: FineTuner) -> None:
        host.forget()

    def scratch(self, spec: InstantftSpec) -> tuple[str, ...]:
        """Records outside the cache, which batches write to both halves of a region in turn."""
        return ("cache", "cache #2") if spec.cache == "none" else ("cache #2",)
