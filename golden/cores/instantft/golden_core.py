"""Golden model of `instantft`: its commands in integers, from and to memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...axi.bus import BEAT
from ...errors import UserError
from ...fixed import Integers, Narrower
from ...lora.adapters import MAXIMUM_RATE, Adapters
from ...lora.early_stop import EarlyStop
from ...lora.forward_cache import Codec, ForwardCache, Records, WordCodec, record_layout
from ...lora.job import Job
from ...lora.memory_layout import LABEL_BIT, adapters_of, logits_image, records_image
from ...nn.arithmetic.forward import StageIntegers
from ...nn.array.images import frozen_of, samples_of
from ..core import SettingValues
from ..golden_core import CommandError, CoreMemory, GoldenCore, known
from .instantft import InstantftSpec
from .registers import REGISTERS, Command

_WORD = 4


class GoldenInstantft(GoldenCore[InstantftSpec]):
    """Golden model of the core.

    Attributes
    ----------
    frozen : list of StageIntegers, or None
        Network, once one has been loaded.
    adapters : Adapters or None
        Adapters, once they have been loaded.
    """

    frozen: list[StageIntegers] | None
    adapters: Adapters | None

    def reset(self) -> None:
        """Forget network, adapters and cache."""
        self.frozen, self.adapters, self._updates = None, None, 0
        self.recover()
        self._forget()

    def recover(self) -> None:
        """Begin with the first of the two halves of the scratch."""
        self._half = 0

    def _forget(self) -> None:
        self._cache: ForwardCache | None = None

    def carry_out(self, command: Command, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        """Carry out a command that is not refused."""
        mapping = self.spec.mapping
        match command:
            case Command.LOAD:
                image = memory.read(settings["parameters"], mapping.forward.frozen_beats * BEAT)
                self.frozen = frozen_of(mapping.forward, image)
            case Command.LOAD_ADAPTERS:
                image = memory.read(settings["adapters"], mapping.adapter_beats * BEAT)
                self.adapters, self._updates = adapters_of(mapping, image), 0
            case Command.SAVE_ADAPTERS:
                memory.write(settings["adapters"], self.spec.layout.adapters(known(self.adapters, "adapters")).image)
            case Command.FORGET:
                self._forget()
            case Command.TUNE:
                return _Tuning(self, settings, memory).run()
            case Command.INFER:
                return self._infer(settings, memory)
        return {}

    def job(self, rate: int, cache: ForwardCache | None = None) -> Job:
        """Make the integer job of the network with the present adapters."""
        spec, adapters = self.spec, known(self.adapters, "adapters")
        return Job(spec.described, known(self.frozen, "parameters"), adapters, rate, cache, spec.noise, loss=spec.loss)

    def sample(self, index: int, settings: SettingValues, memory: CoreMemory) -> Integers:
        """Read a sample as the job takes it."""
        forward = self.spec.forward
        size = forward.sample_beats * BEAT
        sample: Integers = self.spec.values_of(
            samples_of(forward, memory.read(settings["samples"] + index * size, size))
        )[0]
        return sample

    def cache(self, raw: bool, entries: int) -> ForwardCache | None:
        """Forward cache with room for so many samples, with the records that there are."""
        if self.spec.cache == "none":
            return None
        network = self.spec.described
        codec: Codec = WordCodec(network) if raw else record_layout(network)
        before = self._cache if self._cache is not None and self._cache.valid.any() else None
        if before is not None and type(before.codec) is not type(codec):
            raise UserError("the cache has records of another format: forget it first")
        if before is not None and entries <= len(before.valid):
            return before
        self._cache = cache = ForwardCache(network, codec, entries)
        if before is not None:
            known = len(before.valid)
            cache.valid[:known], cache.records[:known] = before.valid, before.records
        return cache

    def write_scratch(self, outputs: Sequence[Integers], settings: SettingValues, memory: CoreMemory) -> None:
        """Write records of a batch past the cache, in Q8.16, to its half of the scratch; the next one has the other."""
        spec, codec = self.spec, WordCodec(self.spec.described)
        if spec.cache != "chip":
            records = records_image(spec.mapping, codec, codec.quantise(np.concatenate(outputs, axis=1)))
            memory.write(settings["cache"] + self._half * spec.batch * spec.mapping.raw_beats * BEAT, records)
        self._half ^= 1

    def end_batch(self) -> None:
        """Change halves, where a batch has no scratch."""
        self._half ^= 1

    def _infer(self, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        """Run batches up to their gradients, as the core does, which count where they are clipped."""
        job, batches, misses = self.job(1), 0, 0
        logits, order = settings["logits"], settings["order"]
        for count in _sizes(settings["samples_per_epoch"], settings["batch"]) * settings["epochs"]:
            words = order_words(memory, order, count)
            indices, labels = words[:count] & ((1 << LABEL_BIT) - 1), words[:count] >> LABEL_BIT
            inputs = np.stack([self.sample(index, settings, memory) for index in indices.tolist()])
            self.write_scratch(job.frozen_outputs(inputs, Narrower()), settings, memory)
            result = job.validate(inputs, labels, indices)
            image = logits_image(self.spec.mapping, result.logits)
            memory.write(logits, image)
            order, logits = order + words.size * _WORD, logits + image.size
            batches, misses = batches + 1, misses + result.misses
        if self.spec.cache == "chip":
            self._forget()
        return {"batches": batches, "misses": misses, "saturations": job.saturations}


class _Tuning:
    """A tuning command.

    Parameters
    ----------
    core : GoldenInstantft
    settings : mapping of str to int
    memory : CoreMemory
    """

    def __init__(self, core: GoldenInstantft, settings: SettingValues, memory: CoreMemory) -> None:
        self._core, self._settings, self._memory, self._spec = core, settings, memory, core.spec
        mode = {field.name: bool(field.of(settings["mode"])) for field in REGISTERS["mode"].fields}
        self._raw, self._writes, self._rates, self._stops = (
            mode[name] for name in ("raw", "write_logits", "rates", "stop")
        )
        self._cache = core.cache(self._raw, settings["cache_entries"])
        self._job = core.job(settings["rate"] or 1, self._cache)
        self._order, self._logits = settings["order"], settings["logits"]
        self._batches = self._misses = 0

    def run(self) -> dict[str, int]:
        """Run all epochs, or those up to an early stop; return the counters."""
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
        """Run a batch of so many entries of the order list."""
        words, rate = self._entries(count, self._rates and learns)
        indices, labels = words & ((1 << LABEL_BIT) - 1), words >> LABEL_BIT
        entries = self._settings["cache_entries"]
        inputs = np.zeros((count, *self._spec.forward.input_shape), np.int64)
        for place, (index, label) in enumerate(zip(indices.tolist(), labels.tolist(), strict=True)):
            if index >= entries:
                raise CommandError("BAD_INDEX", index)
            if label >= self._spec.labels:
                raise CommandError("BAD_LABEL", label)
            inputs[place] = self._core.sample(index, self._settings, self._memory)
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
            image = logits_image(self._spec.mapping, result.logits)
            self._memory.write(self._logits, image)
            self._logits += image.size

    def _entries(self, count: int, has_rate: bool) -> tuple[Integers, int | None]:
        """Read the words of a batch, and its rate."""
        words = order_words(self._memory, self._order, count + has_rate)
        self._order += words.size * _WORD
        rate = int(words[count]) if has_rate else None
        if rate is not None and not 1 <= rate <= MAXIMUM_RATE:
            raise CommandError("BAD_RATE", rate)
        return words[:count], rate

    def _record(self, index: int, cache: ForwardCache) -> tuple[int, Records]:
        """Address and image of a record."""
        image = records_image(self._spec.mapping, cache.codec, cache.records[index : index + 1])
        return self._settings["cache"] + index * image.size, image

    def _write_record(self, index: int, cache: ForwardCache) -> None:
        if self._spec.cache == "dram":
            address, image = self._record(index, cache)
            self._memory.write(address, image)

    def _check_records(self, indices: Integers) -> None:
        """Refuse records in memory that are not those that the core wrote."""
        if self._cache is None or self._spec.cache != "dram":
            return
        for index in indices[self._cache.valid[indices]].tolist():
            address, image = self._record(index, self._cache)
            if self._memory.read(address, image.size).tobytes() != image.tobytes():
                raise UserError(f"the record of sample {index} at cache is not what the core wrote: forget the cache")


def order_words(memory: CoreMemory, address: int, count: int) -> Integers:
    """Read so many words of an order list, and what fills the last beat."""
    return memory.read(address, -(-count * _WORD // BEAT) * BEAT).view("<u4").astype(np.int64)


def _sizes(samples: int, batch: int) -> list[int]:
    """Samples of each batch of an epoch."""
    return [min(batch, samples - first) for first in range(0, samples, batch)]


GOLDEN = GoldenInstantft
"""Golden model of the core, as `golden_core` finds it."""
