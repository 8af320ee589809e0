"""Run a fine-tuning job on the compiled core and compare it with the integer job after every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....boards.cores.instantft.job import FineTuner, Tuned
from ....boards.host.driver import Core
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.fixed import Integers
from ....golden.lora.adapters import Adapters
from ....golden.lora.early_stop import EarlyStop
from ....golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from ....golden.lora.job import BatchResult, Job
from ....golden.lora.memory_layout import adapters_image, adapters_of
from ....golden.nn.arithmetic.forward import StageIntegers
from ...compiled.comparison import Comparison, compare
from ...compiled.device import SimulatedDevice
from ...compiled.session import Bytes, Dram


@dataclass(frozen=True, eq=False)
class TuningJob:
    """A fine-tuning job in integers, as the integer job and the core take it.

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

    @property
    def rates(self) -> Sequence[int]:
        """Learning rate of a sample in each batch."""
        return [self.rate] * sum(map(len, self.epochs)) if isinstance(self.rate, int) else self.rate

    @property
    def batches_of_epoch(self) -> int:
        """Batches of an epoch, with those of its validation."""
        size = max(map(len, self.epochs[0]))
        return len(self.epochs[0]) + (0 if self.validation is None else -(-len(self.validation) // size))

    def golden(self, spec: InstantftSpec) -> Job:
        """Make the integer job, before its first batch."""
        network = spec.described
        codec = WordCodec(network) if self.raw else record_layout(network)
        cache = None if spec.cache == "none" else ForwardCache(network, codec, len(self.inputs))
        adapters = Adapters(self.adapters.shape, self.adapters.flat)
        return Job(network, self.frozen, adapters, self.rates[0], cache, spec.noise, loss=spec.loss)

    def run_golden(self, spec: InstantftSpec, job: Job) -> Iterator[BatchResult]:
        """Run all batches on an integer job, or all up to an early stop.

        After each one the job holds what the core must hold then.
        """
        values, rates = spec.values_of(self.inputs), iter(self.rates)
        stop = EarlyStop(self.stop_loss, self.patience)
        for epoch in self.epochs:
            for batch, rate in zip(epoch, rates, strict=False):
                yield job.batch(values[batch], self.labels[batch], batch, rate)
            yield from self._validate(job, values)
            loss = job.end_epoch()
            if stop.ends(loss if self.validation is None else job.validation.loss):
                return

    def _validate(self, job: Job, values: Integers) -> Iterator[BatchResult]:
        """Run the samples behind an epoch, in batches of their own."""
        if self.validation is not None:
            size = max(map(len, self.epochs[0]))
            for batch in np.split(self.validation, range(size, len(self.validation), size)):
                yield job.validate(values[batch], self.labels[batch], batch)

    def counts(self, spec: InstantftSpec, job: Job, results: Sequence[BatchResult]) -> dict[str, int]:
        """Counters that the core has after a job whose batches on an integer job had these results."""
        misses = sum(one.misses for one in results)
        counts = {"batches": len(results), "misses": misses, "saturations": job.saturations}
        counts |= {"epoch_loss": job.epoch_loss} if spec.early_stop else {}
        loss, correct = job.validation
        return counts | ({"validation_loss": loss, "correct": correct} if spec.validation else {})

    def driver(self, spec: InstantftSpec, device: SimulatedDevice) -> FineTuner:
        """Make a host driver of a core."""
        core = Core(spec.registers, device, device, device.interrupt)
        return FineTuner(core, spec, len(self.inputs), self.raw)

    def load(self, tuner: FineTuner) -> None:
        """Load network and adapters into a core."""
        tuner.load(self.frozen)
        tuner.load_adapters(self.adapters)

    def run_core(self, tuner: FineTuner, device: SimulatedDevice, logits: bool = False) -> tuple[Tuned, Bytes]:
        """Run all batches on a loaded core; return its result and the adapters' image after each batch."""
        before = len(device.traced_images)
        device.trace_image(adapters_image(tuner.spec.mapping, self.adapters))
        ends = (self.stop_loss, self.validation, self.patience)
        tuned = tuner.tune(self.inputs, self.labels, self.epochs, self.rate, logits, *ends)
        return tuned, device.traced_images[before:]

    def found(self, tuner: FineTuner) -> Adapters:
        """Read the core's adapters."""
        return tuner.adapters()

    def mismatches(self, spec: InstantftSpec, golden: Job, tuned: Tuned, traced: Bytes, found: Adapters) -> int:
        """Run the integer job, count what differs in the core's, and give it the core's adapters."""
        images, results = [], []
        for batch in self.run_golden(spec, golden):
            images.append(adapters_image(spec.mapping, golden.adapters))
            results.append(batch)
        expected = np.stack(images)
        wrong = len(images) if traced.shape != expected.shape else int((traced != expected).any(axis=1).sum())
        wrong += not np.array_equal(found.flat, golden.adapters.flat)
        wrong += tuned.finished.counts != self.counts(spec, golden, results)
        golden.adapters.flat[:] = found.flat
        return wrong


@dataclass(frozen=True, kw_only=True)
class JobComparison(Comparison):
    """Comparison of a job on the simulated core with the integer job; mismatches are of the kinds below.

    Batches with a wrong parameter, samples with a wrong logit, final adapters or counters that differ.
    Compared are batches: all adapters after each.
    """

    @property
    def facts(self) -> dict[str, Any]:
        """Figures for a report, by the keys of ``--json``."""
        return super().facts | {"batches_compared": self.compared}


def compare_job(
    spec: InstantftSpec,
    job: TuningJob,
    held_out: NDArray[np.integer],
    dram: Dram | None = None,
    seed: int = 0,
    stage: Callable[[str], None] = lambda _: None,
    kept_epoch: int | None = None,
) -> tuple[Adapters, JobComparison]:
    """Emit, compile and simulate a core, run a job on it through the host driver, and compare.

    Compared are all adapters after every batch, the final adapters, the number of saturated values, and the logits of
    held-out samples with the core's adapters.

    Parameters
    ----------
    spec : InstantftSpec
    job : TuningJob
    held_out, dram, seed, stage
        See `compiled.comparison.compare`.
    kept_epoch : int, optional
        Number, from 1, of the epoch whose adapters are returned; by default the last one that ran.

    Returns
    -------
    Adapters
        The core's adapters at the end, or behind that epoch.
    JobComparison
    """
    _, found, traced, comparison = compare(JobComparison, spec, job, held_out, dram, seed, stage)
    if kept_epoch is not None and (rows := kept_epoch * job.batches_of_epoch) <= len(traced):
        found = adapters_of(spec.mapping, traced[rows - 1].copy())
    return found, comparison
