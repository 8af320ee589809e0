"""Bench of `instantft`: a job through registers and memory, a second on the same cache, a third with a raw one.

The script of each phase is recorded from the host driver's `Core.run`, the regions come from `JobLayout`.
"""

from __future__ import annotations

import numpy as np

from ....golden.axi.regions import Bytes
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.cores.instantft.registers import REGISTERS, Command
from ....golden.fixed import Integers
from ....golden.lora.adapters import Adapters
from ....golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from ....golden.lora.job import Job
from ....golden.lora.memory_layout import cache_image, logits_image
from ....golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ...phase import Phase
from ..recorded_job import RecordedJob

RATE = 5243
"""Learning rate of a sample: 0.02 in 18 fraction bits."""
EPOCHS, BATCH = 2, 4
WORDS_PER_SAMPLE = 125
"""A sample counts as so many words where the bench asks for a number of words."""
RAW, WRITE_LOGITS = (REGISTERS["mode"].field(name).mask for name in ("raw", "write_logits"))


def scenario(spec: InstantftSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make three phases: two epochs from reset; one more epoch on that cache and an inference; a job with a raw cache.

    A cache on the chip cannot be compared; it holds NF4 in the third phase, too. Without a cache all
    phases are in Q8.16.

    Parameters
    ----------
    spec : InstantftSpec
    rng : Generator
        Source of parameters, samples, labels and orders.
    words : int
        Size of a job: one sample for each `WORDS_PER_SAMPLE`.
    """
    return _Scenario(spec, rng, words).phases()


class _Scenario(RecordedJob):
    """A network with random parameters, random samples, and jobs with them."""

    def __init__(self, spec: InstantftSpec, rng: np.random.Generator, words: int) -> None:
        self._spec, self._layout, self._rng = spec, spec.layout, rng
        mapping, network = spec.mapping, spec.described
        self._samples = int(np.clip(words // WORDS_PER_SAMPLE, 2, min(64, spec.cache_entries)))
        self._frozen = random_parameters(network, rng)
        self._inputs, self._x, self._labels = random_samples(network, spec.byte_inputs, self._samples, rng, spec.labels)
        self._work = mapping.forward.cycles
        beats = mapping.forward.frozen_beats + mapping.adapter_beats * 4
        sample = self._work + mapping.raw_beats * 2 + mapping.forward.sample_beats * 2 + mapping.adapter_rows * 8 + 500
        patience = 20 * (beats + 3 * self._samples * sample)
        super().__init__(spec.registers, patience, base=int(rng.integers(1 << spec.address - 17)) << 12)

    def phases(self) -> list[Phase]:
        """Place all regions, then run the three phases with golden and record their commands."""
        memory, layout, spec = self.memory, self._layout, self._spec
        size = min(BATCH, spec.batch)
        first, second, third = self._batches(EPOCHS, size), self._batches(1, size), self._batches(EPOCHS, min(3, size))
        start = self._adapters()
        memory.place(layout.parameters(self._frozen))
        memory.place(layout.adapters(start))
        memory.place(layout.samples(self._inputs))
        for name, batches in (("order", first), ("order_again", second), ("order_raw", third)):
            memory.place(layout.order([(batch, self._labels[batch]) for batch in batches]), name)
        for name, raw in (("cache", False), ("cache_raw", True)):
            memory.place(layout.cache(self._samples, raw), name)
        memory.place(layout.scratch(), "scratch")
        for name in ("logits", "logits_again", "logits_infer", "logits_raw"):
            memory.place(layout.logits(EPOCHS * self._samples), name)
        job = self._job(start, spec.raw_modes[0])
        return [self._first(job, first), self._second(job, second), self._third(third)]

    def _job(self, adapters: Adapters, raw: bool) -> Job:
        """Make golden's job."""
        network = self._spec.described
        codec = WordCodec(network) if raw else record_layout(network)
        cache = None if self._spec.cache == "none" else ForwardCache(network, codec, self._samples)
        return Job(network, self._frozen, adapters, RATE, cache, self._spec.noise, loss=self._spec.loss)

    def _first(self, job: Job, batches: list[Integers]) -> Phase:
        """Load and tune from reset."""
        self.host.expect(signature=self._spec.signature)
        self.core.read("signature")
        registers = ("parameters", "adapters", "samples", "order", "cache", "logits")
        self.run(
            Command.LOAD,
            **{name: self.memory.addresses[name] for name in registers},
            cache_entries=self._samples,
            samples_per_epoch=self._samples,
            epochs=EPOCHS,
            batch=len(batches[0]),
            rate=RATE,
            mode=WRITE_LOGITS | RAW * self._spec.raw_modes[0],
        )
        self.run(Command.LOAD_ADAPTERS)
        logits = self._tune(job, batches)
        steps = self.host.steps
        waiting = max(at for at, step in enumerate(steps) if step.kind == "until")
        self.run(Command.SAVE_ADAPTERS)
        written = {"adapters": self._layout.adapters(job.adapters).image, "logits": logits}
        if job.cache and self._spec.cache == "dram":
            written["cache"] = cache_image(self._spec.mapping, job.cache)
        return self.phase(
            written, self.memory.images, reset=True, midway=(waiting, self._work, self._work * self._samples)
        )

    def _second(self, job: Job, batches: list[Integers]) -> Phase:
        """Tune on the records that are there, then infer with another region as cache."""
        addresses = self.memory.addresses
        again = self._tune(job, batches, order=addresses["order_again"], logits=addresses["logits_again"], epochs=1)
        inferred = np.concatenate([job.logits(self._x[batch]) for batch in batches])
        counters = {"batches": len(batches), "misses": self._samples, "saturations": None, **self._losses(0)}
        self.run(Command.INFER, counters, logits=addresses["logits_infer"], cache=addresses["scratch"])
        self.run(Command.SAVE_ADAPTERS, cache=addresses["cache"])
        image = self._layout.adapters(job.adapters).image
        return self.phase(
            {"adapters": image, "logits_again": again, "logits_infer": logits_image(self._spec.mapping, inferred)}, {}
        )

    def _third(self, batches: list[Integers]) -> Phase:
        """Tune other adapters with another size of batches and an empty raw cache."""
        addresses, raw = self.memory.addresses, self._spec.raw_modes[-1]
        adapters = self._adapters()
        start = self._layout.adapters(adapters).image
        self.run(Command.FORGET)
        self.run(Command.LOAD_ADAPTERS)
        job = self._job(adapters, raw)
        logits = self._tune(
            job,
            batches,
            order=addresses["order_raw"],
            logits=addresses["logits_raw"],
            cache=addresses["cache_raw"],
            epochs=EPOCHS,
            batch=len(batches[0]),
            mode=WRITE_LOGITS | RAW * raw,
        )
        self.run(Command.SAVE_ADAPTERS)
        written = {"adapters": self._layout.adapters(adapters).image, "logits_raw": logits}
        if job.cache and self._spec.cache == "dram":
            written["cache_raw"] = cache_image(self._spec.mapping, job.cache)
        return self.phase(written, {addresses["adapters"]: start})

    def _tune(self, job: Job, batches: list[Integers], **settings: int) -> Bytes:
        """Tune with golden and record the command; return the image of the logits."""
        before = job.saturations
        results = []
        for number, batch in enumerate(batches, 1):
            results.append(job.batch(self._x[batch], self._labels[batch], batch))
            if number % -(-self._samples // len(batches[0])) == 0:
                job.end_epoch()
        counters = {
            "batches": len(batches),
            "misses": sum(one.misses for one in results),
            "saturations": job.saturations - before,
            **self._losses(job.epoch_loss),
        }
        self.run(Command.TUNE, counters, **settings)
        return logits_image(self._spec.mapping, np.concatenate([one.logits for one in results]))

    def _losses(self, loss: int) -> dict[str, int]:
        """Counters of the last epoch's loss, and of a validation, where the core has them; no phase validates."""
        validation = {"validation_loss": 0, "correct": 0} if self._spec.validation else {}
        return {"epoch_loss": loss, **validation} if self._spec.early_stop else {}

    def _adapters(self) -> Adapters:
        """Make adapters with small random A and B in Q4.12."""
        shape, rng = self._spec.mapping.shape, self._rng
        a = [rng.normal(0, inputs**-0.5, inputs * shape.rank) for inputs in shape.inputs]
        b = rng.normal(0, 0.05, shape.classes * len(shape.inputs) * shape.rank)
        return Adapters(shape, np.rint(np.concatenate([*a, b]) * 4096).astype(np.int64))

    def _batches(self, epochs: int, size: int) -> list[Integers]:
        """Draw an order of all samples for each epoch, cut into batches."""
        orders = [self._rng.permutation(self._samples) for _ in range(epochs)]
        return [order[at : at + size] for order in orders for at in range(0, self._samples, size)]
