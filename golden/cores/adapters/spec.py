"""Spec of a core that trains adapters: the trainer's part."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

from ...errors import UserError, check_range
from ...lora.adapters import MAXIMUM_RATE
from ...lora.memory_layout import JobLayout
from ...lora.record_sizes import RecordSizes
from ..core import Check, CoreSpec
from .registers import RATES, RAW, STOP, WRITE_LOGITS, Command, Error

WORD_MASK = (1 << 32) - 1
"""All bits of a setting."""


class AdapterCoreSpec(CoreSpec):
    """Trainer's part of the spec of a core with `adapter_registers`. The core's own class declares the fields.

    Attributes
    ----------
    batch : int
        Maximum number of samples in a batch, 2 to 256.
    cache_entries : int
        Maximum number of samples in the cache; without a cache, in a tuning.
    cache : str
        Place of the forward cache: ``dram``, ``chip`` or ``none``.
    rates : bool
        The sample schedule may have a learning rate for each batch.
    early_stop : bool
        The core sums the loss of each epoch; a tuning may end at a small loss.
    validation : bool
        With `early_stop`: validation samples may follow each epoch.
    ports : int
        AXI4 ports to the external memory.
    """

    batch: int
    cache_entries: int
    cache: Literal["dram", "chip", "none"]
    rates: bool
    early_stop: bool
    validation: bool
    ports: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("batch", self.batch, 2, 256)
        check_range("cache_entries", self.cache_entries, 1, 1 << 20)
        if self.validation and not self.early_stop:
            raise UserError("validation without early_stop: give early_stop=true, which sums the losses")

    @property
    @abstractmethod
    def sizes(self) -> RecordSizes:
        """Sizes of samples, records and logits."""

    @property
    @abstractmethod
    def layout(self) -> JobLayout:
        """Memory regions of a job."""

    @property
    def address_buses(self) -> dict[str, str]:
        """Buses of any core, and ports for `cache` and `samples`; records on the chip have no bus."""
        buses = super().address_buses
        buses |= {name: f"m_axi_gmem{port}" for port, name in enumerate(("cache", "samples")[: self.ports - 1], 1)}
        if self.cache == "chip":
            del buses["cache"]
        return buses

    @property
    def cache_ram_beats(self) -> int:
        """Beats of the cache RAM on the chip; 0 without this RAM. An inference stores two batches in Q8.16 there."""
        if self.cache != "chip":
            return 0
        return max(self.cache_entries * self.sizes.record_beats, 2 * self.batch * self.sizes.raw_beats)

    @property
    def cached_samples(self) -> int:
        """Maximum number of samples in the cache; 0 for a core without a cache."""
        return 0 if self.cache == "none" else self.cache_entries

    @property
    def raw_modes(self) -> tuple[bool, ...]:
        """Allowed values of `mode.raw` in a tuning, the default first."""
        return {"dram": (False, True), "chip": (False,), "none": (True,)}[self.cache]

    @property
    def modes(self) -> int:
        """Allowed bits of `mode`."""
        optional = ((RATES, self.rates), (STOP, self.early_stop))
        return RAW.mask | WRITE_LOGITS.mask | sum(field.mask for field, enabled in optional if enabled)

    @property
    def largest_batch(self) -> int:
        return self.batch

    def checks(self, command: Any, settings: Any) -> Iterator[Check]:
        tune = command == Command.TUNE
        job = tune | (command == Command.INFER)
        entries, batch, rate, mode = settings.cache_entries, settings.batch, settings.rate, settings.mode
        empty = (settings.samples_per_epoch == 0) | (settings.epochs == 0)
        bad_rate = (rate == 0) | (rate > MAXIMUM_RATE)
        if self.rates:
            bad_rate &= (mode & RATES.mask) == 0
        yield Check(job & empty, Error.ZERO_LENGTH, settings.epochs)
        yield Check(tune & (entries == 0), Error.ZERO_LENGTH, entries)
        yield Check(tune & (entries > self.cache_entries), Error.BAD_CACHE_ENTRIES, entries)
        yield Check(job & ((batch == 0) | (batch > self.batch)), Error.BAD_BATCH, batch)
        yield Check(tune & bad_rate, Error.BAD_RATE, rate)
        yield Check(job & ((mode & (WORD_MASK ^ self.modes)) != 0), Error.BAD_MODE, mode)
        for raw in {0, 1} - {int(allowed) for allowed in self.raw_modes}:
            yield Check(tune & ((mode & 1) == raw), Error.BAD_MODE, mode)
