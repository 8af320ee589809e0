"""Host driver of adapter training, common to all cores: buffers, commands, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...golden.axi.regions import Region
from ...golden.cores.adapters.registers import RATES, RAW, STOP, WRITE_LOGITS, Command
from ...golden.cores.adapters.spec import AdapterCoreSpec
from ...golden.errors import UserError
from ...golden.fixed import Integers
from ...golden.lora.adapters import Adapters
from ...golden.lora.early_stop import EarlyStop
from .driver import Core, Finished


@dataclass(frozen=True)
class Tuned:
    """Result of a job.

    Parameters
    ----------
    finished : Finished
    logits : array of int64, (entries, classes), optional
        Q8.16, for each schedule entry up to the job's end, as they were before the update of the entry's batch.
    """

    finished: Finished
    logits: Integers | None


class AdapterHost:
    """Fine-tuning jobs on a core: buffers and commands, except for loading the network.

    Parameters
    ----------
    core : Core
    spec : AdapterCoreSpec
    samples : int
        Number of cache entries, at least the number of samples to tune on.
    raw : bool
        The cache holds Q8.16 (Skip2-LoRA) instead of NF4 (InstantFT); true for a core without a cache.

    Raises
    ------
    UserError
        If the core has another spec, fewer cache entries, or another format of records.
    """

    def __init__(self, core: Core, spec: AdapterCoreSpec, samples: int, raw: bool = False) -> None:
        core.check_signature(spec.signature)
        if not 1 <= samples <= spec.cache_entries:
            raise UserError(f"{samples} samples: this core was generated for 1 to {spec.cache_entries}")
        if raw not in spec.raw_modes:
            kept, wanted = ("on the chip, in NF4", "Q8.16") if raw else ("none, and its records are in Q8.16", "NF4")
            raise UserError(f"the cache of this core is {kept}: generate it with cache=dram for {wanted}")
        self.core, self.spec, self.layout, self.samples, self.raw = core, spec, spec.layout, samples, raw
        self._cache = self.core.place(self.layout.cache(samples, raw))
        self._adapters = self.core.place(self.layout.adapters())

    def load_adapters(self, adapters: Adapters) -> Finished:
        """Load adapters; they stay until the next load."""
        self._adapters.array[:] = self.layout.adapters(adapters).image
        self._adapters.flush()
        return self.core.run(Command.LOAD_ADAPTERS, adapters=self._adapters.device_address)

    def adapters(self) -> Adapters:
        """Read the current adapters."""
        self.core.run(Command.SAVE_ADAPTERS, adapters=self._adapters.device_address)
        self._adapters.invalidate()
        return self.layout.adapters_of(self._adapters.array.copy())

    def forget(self) -> Finished:
        """Empty the cache, for another frozen network or other samples."""
        return self.core.run(Command.FORGET)

    def tune(
        self,
        inputs: NDArray[np.integer],
        labels: Integers,
        epochs: Sequence[Sequence[Integers]],
        rate: int | Sequence[int],
        logits: bool = False,
        stop_loss: int | None = None,
        validation: Integers | None = None,
        patience: int = 0,
    ) -> Tuned:
        """Fine-tune with one command.

        Parameters
        ----------
        inputs : array of int, (n, *input_shape)
            Bytes or Q8.16, as the core was generated.
        labels : array of int, (n,)
        epochs : sequence of sequences of array of int
            Sample indices of each batch. All batches of an epoch except the last must be equally large.
        rate : int or sequence of int
            Learning rate of a sample, from `golden.lora.adapters.rate_of`; or a rate for each batch of all epochs.
        logits : bool
            Write the logits of every schedule entry, as they are before the update of the entry's batch.
        stop_loss : int, optional
            End with the first epoch whose loss (of the validation, if any) is at most this, see
            `golden.lora.early_stop`.
        validation : array of int, optional
            Indices of the samples of the validation after each epoch.
        patience : int
            End after this number of successive losses above the smallest; 0: any number.

        Raises
        ------
        UserError
            If there are more samples than cache entries, epochs differ in their batches' sizes, rates do not match the
            batches, or the core lacks a used option.
        """
        if len(inputs) > self.samples or len(inputs) != len(labels):
            raise UserError(f"{len(inputs)} samples and {len(labels)} labels for a cache of {self.samples}")
        sizes = [[len(batch) for batch in epoch] for epoch in epochs]
        if not sizes or any(size != sizes[0] for size in sizes) or len(set(sizes[0][:-1])) > 1:
            raise UserError("epochs differ in their batches' sizes, or an epoch has two sizes before its last batch")
        size, checked = max(sizes[0]), np.arange(0) if validation is None else validation
        behind = np.split(checked, range(size, len(checked), size)) if len(checked) else []
        batches = [(batch, labels[batch]) for epoch in epochs for batch in (*epoch, *behind)]
        rates = () if isinstance(rate, int) else tuple(rate)
        if rates and not self.spec.rates:
            raise UserError("this core has one rate for all batches: generate it with rates=true")
        if stop_loss is not None and not self.spec.early_stop:
            raise UserError("this core knows no loss: generate it with early_stop=true")
        if (len(checked) or patience) and not self.spec.validation:
            raise UserError("this core knows no validation and no patience: generate it with validation=true")
        learnt = len(epochs) * len(sizes[0])
        if rates and len(rates) != learnt:
            raise UserError(f"{len(rates)} rates for {learnt} batches")
        tuned = self._run(
            Command.TUNE,
            inputs,
            self.layout.order(batches, self._with_validation(rates, len(sizes[0]), len(behind))),
            sum(len(batch) for batch, _ in batches) if logits else 0,
            cache_entries=self.samples,
            epochs=len(epochs),
            samples_per_epoch=sum(sizes[0]),
            batch=size,
            rate=rate if isinstance(rate, int) else 0,
            mode=self._mode(logits, bool(rates), stop_loss is not None or patience > 0),
            **({"stop_loss": stop_loss or 0} if self.spec.early_stop else {}),
            **({"validation_samples": len(checked), "patience": patience} if self.spec.validation else {}),
        )
        if tuned.logits is None:
            return tuned
        done = batches[: tuned.finished.counts["batches"]]
        return Tuned(tuned.finished, tuned.logits[: sum(len(batch) for batch, _ in done)])

    def tune_best(
        self,
        inputs: NDArray[np.integer],
        labels: Integers,
        epochs: Sequence[Sequence[Integers]],
        rate: int | Sequence[int],
        stop_loss: int | None = None,
        validation: Integers | None = None,
        patience: int = 0,
    ) -> tuple[int, Adapters]:
        """Fine-tune with one command per epoch; return the number (from 1) and adapters of the epoch with the smallest
        loss.

        Arguments and results are those of `tune`, bit by bit in each epoch. `EarlyStop`, the rule of the core itself,
        decides the end from the core's losses. The first of equal losses wins. At the end the core has the returned
        adapters.

        Raises
        ------
        UserError
            As `tune`, and if the core computes no loss.
        """
        if not self.spec.early_stop:
            raise UserError("this core knows no loss: generate it with early_stop=true")
        counter = "epoch_loss" if validation is None else "validation_loss"
        stop, best, kept, first = EarlyStop(stop_loss, patience), 0, self.adapters(), 0
        for number, epoch in enumerate(epochs, start=1):
            own = rate if isinstance(rate, int) else rate[first : first + len(epoch)]
            first += len(epoch)
            done = self.tune(inputs, labels, [epoch], own, validation=validation)
            ends = stop.ends(done.finished.counts[counter])
            if stop.waited == 0:
                best, kept = number, self.adapters()
            if ends:
                break
        self.load_adapters(kept)
        return best, kept

    @staticmethod
    def _with_validation(rates: Sequence[int], batches: int, behind: int) -> list[int | None]:
        """Rates of all batches; None for the `behind` validation batches that follow each epoch."""
        found: list[int | None] = []
        for first in range(0, len(rates), batches):
            found += [*rates[first : first + batches], *[None] * behind]
        return found

    def logits(self, inputs: NDArray[np.integer]) -> Integers:
        """Outputs of the tuned network, computed without the cache: (n, classes) in Q8.16."""
        size = self.spec.batch
        indices = np.arange(len(inputs))
        batches = [(batch, np.zeros_like(batch)) for batch in np.split(indices, range(size, len(indices), size))]
        scratch = self.core.place(self.layout.scratch())
        tuned = self._run(
            Command.INFER,
            inputs,
            self.layout.order(batches),
            len(indices),
            cache=scratch.device_address,
            epochs=1,
            samples_per_epoch=len(inputs),
            batch=size,
            mode=0,
        )
        assert tuned.logits is not None
        return tuned.logits

    def _run(
        self,
        command: Command,
        inputs: NDArray[np.integer],
        order: Region,
        entries: int,
        **settings: int,
    ) -> Tuned:
        """Place samples, schedule and logits, then run a command."""
        regions = (self.layout.samples(inputs), order, self.layout.logits(entries))
        buffers = {region.register: self.core.place(region) for region in regions}
        addresses = {register: buffer.device_address for register, buffer in buffers.items()}
        finished = self.core.run(command, **addresses, **{"cache": self._cache.device_address, **settings})
        if not entries:
            return Tuned(finished, None)
        buffers["logits"].invalidate()
        return Tuned(finished, self.layout.logits_of(buffers["logits"].array))

    def _mode(self, logits: bool, rates: bool, stop: bool) -> int:
        chosen = ((RAW, self.raw), (WRITE_LOGITS, logits), (RATES, rates), (STOP, stop))
        return sum(field.mask for field, wanted in chosen if wanted)
