"""Golden model of the trainer of adapters, for any engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from ...axi.bus import BEAT
from ...errors import UserError
from ...fixed import Integers, Narrower
from ...lora.adapters import MAXIMUM_RATE, Adapters
from ...lora.early_stop import EarlyStop
from ...lora.forward_cache import ForwardCache, Records
from ...lora.job import Job
from ...lora.memory_layout import LABEL_BIT
from ..core import SettingValues
from ..golden_core import CommandError, CoreMemory, GoldenCore, known
from .registers import RATES, RAW, STOP, WRITE_LOGITS, Command
from .spec import AdapterCoreSpec

_WORD = 4
Spec = TypeVar("Spec", bound=AdapterCoreSpec)


class GoldenAdapters(GoldenCore[Spec]):
    """Golden model of a core that trains adapters.

    Attributes
    ----------
    frozen : object
        Loaded network, or None.
    adapters : Adapters or None
        Loaded adapters.
    """

    frozen: Any
    adapters: Adapters | None

    def reset(self) -> None:
        """Forget network, adapters and cache."""
        self.frozen, self.adapters, self._updates = None, None, 0
        self.recover()

    def recover(self) -> None:
        """Forget the cache, and use the first half of the scratch region next."""
        self._half = 0
        self._forget()

    def _forget(self) -> None:
        self._cache: ForwardCache | None = None

    @abstractmethod
    def load(self, settings: SettingValues, memory: CoreMemory) -> Any:
        """Load a network from memory."""

    @abstractmethod
    def job(self, rate: int, cache: ForwardCache | None = None) -> Job:
        """Integer job of the network with the present adapters."""

    @abstractmethod
    def sample(self, index: int, settings: SettingValues, memory: CoreMemory) -> Integers:
        """Read a sample in the job's format."""

    @abstractmethod
    def new_cache(self, raw: bool, entries: int) -> ForwardCache:
        """Empty cache of `entries` samples, in Q8.16 (`raw`) or NF4."""

    def carry_out(self, command: Command, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        layout = self.spec.layout
        match command:
            case Command.LOAD:
                self.frozen = self.load(settings, memory)
            case Command.LOAD_ADAPTERS:
                image = memory.read(settings["adapters"], layout.adapters().size)
                self.adapters, self._updates = layout.adapters_of(image), 0
            case Command.SAVE_ADAPTERS:
                memory.write(settings["adapters"], layout.adapters(known(self.adapters, "adapters")).image)
            case Command.FORGET:
                self._forget()
            case Command.TUNE:
                return _Tuning(self, settings, memory).run()
            case Command.INFER:
                return self._infer(settings, memory)
        return {}

    def cache(self, raw: bool, entries: int) -> ForwardCache | None:
        """Forward cache for at least `entries` samples, with the records so far; None for a core without a cache."""
        if self.spec.cache == "none":
            return None
        cache = self.new_cache(raw, entries)
        before = self._cache if self._cache is not None and self._cache.valid.any() else None
        if before is not None and type(before.codec) is not type(cache.codec):
            raise UserError("the cache has records of another format: forget it first")
        if before is not None and entries <= len(before.valid):
            return before
        self._cache = cache
        if before is not None:
            count = len(before.valid)
            cache.valid[:count], cache.records[:count] = before.valid, before.records
        return cache

    def write_scratch(self, outputs: Sequence[Integers], settings: SettingValues, memory: CoreMemory) -> None:
        """Write a batch's Q8.16 records to one half of the scratch region; the next batch takes the other half."""
        spec = self.spec
        if spec.cache != "chip":
            codec = self.new_cache(raw=True, entries=1).codec
            records = spec.layout.records_image(codec, codec.quantise(np.concatenate(outputs, axis=1)))
            memory.write(settings["cache"] + self._half * spec.batch * spec.sizes.raw_beats * BEAT, records)
        self.end_batch()

    def end_batch(self) -> None:
        self._half ^= 1

    def _infer(self, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        """Infer batches; compute gradients, too, like the core, because their clipped values count."""
        job, batches, misses = self.job(1), 0, 0
        logits, order = settings["logits"], settings["order"]
        for count in _sizes(settings["samples_per_epoch"], settings["batch"]) * settings["epochs"]:
            words = _order_words(memory, order, count)
            indices, labels = words[:count] & ((1 << LABEL_BIT) - 1), words[:count] >> LABEL_BIT
            inputs = np.stack([self.sample(index, settings, memory) for index in indices.tolist()])
            self.write_scratch(job.frozen_outputs(inputs, Narrower()), settings, memory)
            result = job.validate(inputs, labels, indices)
            image = self.spec.layout.logits_image(result.logits)
            memory.write(logits, image)
            order, logits = order + words.size * _WORD, logits + image.size
            batches, misses = batches + 1, misses + result.misses
        if self.spec.cache == "chip":
            self._forget()
        return {"batches": batches, "misses": misses, "saturations": job.saturations}


class _Tuning:
    """Run a tuning command; return its counters."""

    def __init__(self, core: GoldenAdapters[Any], settings: SettingValues, memory: CoreMemory) -> None:
        self._core, self._settings, self._memory, self._spec = core, settings, memory, core.spec
        raw, self._writes, self._rates, self._stops = (
            bool(field.of(settings["mode"])) for field in (RAW, WRITE_LOGITS, RATES, STOP)
        )
        self._cache = core.cache(raw, settings["cache_entries"])
        self._job = core.job(settings["rate"] or 1, self._cache)
        self._order, self._logits = settings["order"], settings["logits"]
        self._batches = self._misses = 0

    def run(self) -> dict[str, int]:
        """Run epochs up to the last or an early stop; return the counters."""
        settings, job, core = self._settings, self._job, self._core
        checked = settings["validation_samples"] if self._spec.validation else 0
        stop = EarlyStop(settings["stop_loss"], settings.get("patience", 0)) if self._stops else None
        job.batches = core._updates
        core.note_update(lambda: self._spec.layout.adapters(job.adapters).image)
        for _ in range(settings["epochs"]):
            for count in _sizes(settings["samples_per_epoch"], settings["batch"]):
                self._batch(count, learns=True)
            for count in _sizes(checked, settings["batch"]):
                self._batch(count, learns=False)
            loss = job.end_epoch()
            if stop and stop.ends(job.validation.loss if checked else loss):
                break
        core._updates = job.batches
        counters = {"batches": self._batches, "misses": self._misses, "saturations": job.saturations}
        counters |= {"epoch_loss": job.epoch_loss} if self._spec.early_stop else {}
        loss, correct = job.validation
        return counters | ({"validation_loss": loss, "correct": correct} if self._spec.validation else {})

    def _batch(self, count: int, learns: bool) -> None:
        """Run a batch of `count` entries of the sample schedule."""
        words, rate = self._entries(count, self._rates and learns)
        indices, labels = words & ((1 << LABEL_BIT) - 1), words >> LABEL_BIT
        entries, samples = self._settings["cache_entries"], []
        for index, label in zip(indices.tolist(), labels.tolist(), strict=True):
            if index >= entries:
                raise CommandError("BAD_INDEX", index)
            if label >= self._spec.labels:
                raise CommandError("BAD_LABEL", label)
            samples.append(self._core.sample(index, self._settings, self._memory))
        inputs = np.stack(samples)
        self._check_records(indices)
        new = indices if self._cache is None else indices[self._cache.missing(indices)]
        if self._cache is None:
            self._core.write_scratch(self._job.frozen_outputs(inputs, Narrower()), self._settings, self._memory)
        else:
            self._core.end_batch()
        if learns:
            result = self._job.batch(inputs, labels, indices, rate)
        else:
            result = self._job.validate(inputs, labels, indices)
        self._core.note_update(lambda: self._spec.layout.adapters(self._job.adapters).image)
        self._batches, self._misses = self._batches + 1, self._misses + result.misses
        if self._cache is not None:
            for index in new.tolist():
                self._write_record(index, self._cache)
        if self._writes:
            image = self._spec.layout.logits_image(result.logits)
            self._memory.write(self._logits, image)
            self._logits += image.size

    def _entries(self, count: int, has_rate: bool) -> tuple[Integers, int | None]:
        """Schedule entries of a batch, and its learning rate or None."""
        words = _order_words(self._memory, self._order, count + has_rate)
        self._order += words.size * _WORD
        rate = int(words[count]) if has_rate else None
        if rate is not None and not 1 <= rate <= MAXIMUM_RATE:
            raise CommandError("BAD_RATE", rate)
        return words[:count], rate

    def _record(self, index: int, cache: ForwardCache) -> tuple[int, Records]:
        """Address and image of a record."""
        image = self._spec.layout.records_image(cache.codec, cache.records[index : index + 1])
        return self._settings["cache"] + index * image.size, image

    def _write_record(self, index: int, cache: ForwardCache) -> None:
        if self._spec.cache == "dram":
            address, image = self._record(index, cache)
            self._memory.write(address, image)

    def _check_records(self, indices: Integers) -> None:
        """Refuse records in memory that differ from the core's writes."""
        if self._cache is None or self._spec.cache != "dram":
            return
        for index in indices[self._cache.valid[indices]].tolist():
            address, image = self._record(index, self._cache)
            if self._memory.read(address, image.size).tobytes() != image.tobytes():
                raise UserError(f"the record of sample {index} at cache is not what the core wrote: forget the cache")


def _order_words(memory: CoreMemory, address: int, count: int) -> Integers:
    """Words of a sample schedule, padded to whole beats."""
    return memory.read(address, -(-count * _WORD // BEAT) * BEAT).view("<u4").astype(np.int64)


def _sizes(samples: int, batch: int) -> list[int]:
    return [min(batch, samples - first) for first in range(0, samples, batch)]
