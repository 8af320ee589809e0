"""Fine-tuning as a job for the host driver of `instantft`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ....boards.cores.instantft.job import FineTuner, Tuned
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
    """A fine-tuning job, see `compiled.playing.HostJob`.

    Parameters
    ----------
    frozen : sequence of StageIntegers
        Weights and biases of the frozen network, Q4.12.
    adapters : Adapters
        Adapters at the start, Q4.12; they are not changed.
    inputs : array of int, (n, *input_shape)
        Bytes or Q8.16, as the core was generated.
    labels : array of int, (n,)
    epochs : sequence of sequences of array of int
        Indices of the samples of each batch of each epoch.
    rate : int or sequence of int
        Learning rate of a sample, from `golden.lora.adapters.rate_of`; or that of each batch, one after the other.
    raw : bool
        The cache holds Q8.16 (Skip2-LoRA) and not NF4 (InstantFT); true of a core without a cache.
    stop_loss : int, optional
        Largest loss of an epoch, or of its validation, that ends the job, see `golden.lora.early_stop`.
    validation : array of int, optional
        Indices of the samples that are run behind each epoch, and not learnt from.
    patience : int
        Losses in a row, none of them the smallest, that end the job; 0: any number.
    logits : bool
        The core writes the logits of every order entry.
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
        """Batches of an epoch, with those of its validation."""
        size = max(map(len, self.epochs[0]))
        return len(self.epochs[0]) + (0 if self.validation is None else -(-len(self.validation) // size))

    def golden(self, spec: InstantftSpec) -> GoldenInstantft:
        """Make the golden core."""
        return GoldenInstantft(spec)

    def host(self, core: Core, spec: InstantftSpec) -> FineTuner:
        """Make the host driver."""
        return FineTuner(core, spec, len(self.inputs), self.raw)

    def load(self, host: FineTuner) -> None:
        """Load the frozen network."""
        host.load(self.frozen)

    def start(self, host: FineTuner) -> Bytes:
        """Load the adapters; return their image."""
        host.load_adapters(self.adapters)
        return host.layout.adapters(self.adapters).image

    def run(self, host: FineTuner) -> Tuned:
        """Fine-tune."""
        ends = (self.stop_loss, self.validation, self.patience)
        return host.tune(self.inputs, self.labels, self.epochs, self.rate, self.logits, *ends)

    def tuned(self, host: FineTuner) -> Adapters:
        """Read the adapters."""
        return host.adapters()

    def forget(self, host: FineTuner) -> None:
        """Empty the cache."""
        host.forget()

    def scratch(self, spec: InstantftSpec) -> tuple[str, ...]:
        """Records past the cache, which batches in turn write to both halves of a region."""
        return ("cache", "cache #2") if spec.cache == "none" else ("cache #2",)
