"""What the bench of a fine-tuning core does: whole jobs, straight after each other, with random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..axi.bus import BEAT
from ..block import ANSWERING, HOST, Phase, Step
from ..fixed import Q4_12, Integers, of_pixels
from ..lora.adapters import Adapters
from ..lora.forward_cache import ForwardCache, WordCodec, record_layout
from ..lora.images import adapters_image, adapters_of, order_image
from ..lora.job import Job
from ..lora.memory_layout import JobMemory, cache_bytes, cache_image, logits_image
from ..models.network import Network
from ..nn.forward import StageIntegers
from ..nn.images import Bytes, frozen_image, samples_image
from .instantft_registers import REGISTERS, Command

if TYPE_CHECKING:
    from .instantft import InstantftSpec

RATE = 5243
"""Of a sample: 0.02 in 18 fraction bits."""
EPOCHS, BATCH = 2, 4
WORDS_PER_SAMPLE = 125
"""What a sample counts where the bench asks for about so many words."""
RAW, SHOW = (REGISTERS["mode"].field(name).mask for name in ("raw", "write_logits"))
DONE = REGISTERS["status"].field("done").mask
"""What `status` reads after a command without error."""


def random_parameters(network: Network, rng: np.random.Generator, gain: float = 1.0) -> list[StageIntegers]:
    """Of a network whose numbers stay as large as its samples'; with a `gain` above 1 they grow from stage to stage."""
    frozen = []
    for stage in network.stages:
        weight = rng.normal(0, gain * (2 / np.prod(stage.weight_shape[1:])) ** 0.5, stage.weight_shape)
        frozen.append(StageIntegers(Q4_12.from_float(weight), rng.integers(-400, 400, stage.biases)))
    return frozen


class Host:
    """Steps, and the answers that golden expects to them."""

    def __init__(self, patience: int) -> None:
        self.steps: list[Step] = []
        self.answers: list[tuple[int, int]] = []
        self._patience = patience

    def write(self, **registers: int) -> None:
        """Write registers."""
        for name, value in registers.items():
            self._add(Step("write", REGISTERS[name].offset, value))

    def read(self, **registers: int) -> None:
        """Read registers, which are expected to hold this."""
        for name, value in registers.items():
            self._add(Step("read", REGISTERS[name].offset), value)

    def run(self, command: Command, **counts: int) -> None:
        """A command to its interrupt, and what the registers read afterwards."""
        self.write(command=command)
        self._add(Step("until", "interrupt", self._patience))
        self.read(status=DONE, error_address=0, interrupt=1, **counts)
        self.write(interrupt=1)
        self._add(Step("get", "interrupt"), 0)

    def _add(self, step: Step, value: int = 0) -> None:
        self.steps.append(step)
        if step.kind in ANSWERING:
            self.answers.append((0, value))

    @property
    def expected(self) -> dict[str, Integers]:
        """As a phase wants it."""
        responses, values = np.array(self.answers, np.int64).T
        return {"response": responses[:, None], "value": values[:, None]}


class Scenario:
    """A network with random parameters, random samples, and jobs with them.

    Parameters
    ----------
    spec : InstantftSpec
    rng : Generator
    words : int
        About how much a job does: a sample for each `WORDS_PER_SAMPLE`.
    """

    def __init__(self, spec: InstantftSpec, rng: np.random.Generator, words: int) -> None:
        self._spec, self._mapping, self._rng = spec, spec.mapping, rng
        self._outside = spec.cache == "dram"
        network = spec.described
        self._samples = int(np.clip(words // WORDS_PER_SAMPLE, 2, min(64, spec.cache_entries)))
        self._frozen = random_parameters(network, rng)
        if self._mapping.forward.byte_inputs:
            self._given = rng.integers(0, 256, (self._samples, *network.input_shape))
            self._x = of_pixels(self._given)
        else:
            self._x = self._given = rng.integers(-60000, 60000, (self._samples, *network.input_shape))
        self._labels = rng.integers(0, network.classes, self._samples)
        self._work = sum(stage.cycles for stage in self._mapping.forward.stages)
        beats = self._mapping.forward.frozen_beats + self._mapping.adapter_beats * 4
        sample = (
            self._work
            + self._mapping.raw_beats * 2
            + self._mapping.forward.sample_beats * 2
            + self._mapping.adapter_rows * 8
            + 500
        )
        self._patience = 20 * (beats + 3 * self._samples * sample)
        self._memory = JobMemory(int(rng.integers(1 << 16)) << 12)

    def phases(self) -> list[Phase]:
        """Two epochs from reset; one more on the same cache, and an inference; a second job with a raw cache.

        A cache on the chip is not compared, and is in NF4 in the second job, too.
        """
        memory, mapping, network = self._memory, self._mapping, self._spec.described
        batch = min(BATCH, self._spec.batch)
        first = self._batches(EPOCHS, batch)
        second = self._batches(1, batch)
        third = self._batches(EPOCHS, min(3, self._spec.batch))
        visits = EPOCHS * self._samples
        memory.put("parameters", frozen_image(mapping.forward, self._frozen))
        memory.put("adapters", adapters_image(mapping, self._adapters()))
        memory.put("samples", samples_image(mapping.forward, self._given))
        memory.put("order", order_image(self._labelled(first)))
        memory.put("order_again", order_image(self._labelled(second)))
        memory.put("order_raw", order_image(self._labelled(third)))
        for name, raw in (("cache", False), ("cache_raw", True)):
            memory.reserve(name, cache_bytes(mapping, raw, self._samples) if self._outside else BEAT)
        memory.reserve("scratch", cache_bytes(mapping, True, 2 * self._spec.batch))
        for name in ("logits", "logits_again", "logits_infer", "logits_raw"):
            memory.reserve(name, visits * mapping.logit_beats * BEAT)
        adapters = adapters_of(mapping, memory.images[memory.addresses["adapters"]])
        cache = ForwardCache(network, record_layout(network), self._samples)
        job = Job(network, self._frozen, adapters, RATE, cache)
        return [self._first(job, first, batch), self._second(job, second), self._third(third)]

    def _first(self, job: Job, batches: list[Integers], batch: int) -> Phase:
        addresses, host = self._memory.addresses, Host(self._patience)
        host.read(signature=self._spec.signature)
        host.write(**{name: address for name, address in addresses.items() if "_" not in name and name != "scratch"})
        host.write(cache_entries=self._samples, samples_per_epoch=self._samples, epochs=EPOCHS, batch=batch, rate=RATE)
        host.write(mode=SHOW, interrupt_enable=1)
        host.run(Command.LOAD)
        host.run(Command.LOAD_ADAPTERS)
        logits = self._tune(job, host, batches, self._samples)
        tuning = next(at for at, step in enumerate(host.steps) if step.value == Command.TUNE and step.at == 0) + 1
        host.run(Command.SAVE_ADAPTERS)
        kept = {"adapters": adapters_image(self._mapping, job.adapters), "logits": logits}
        if job.cache and self._outside:
            kept["cache"] = cache_image(self._mapping, job.cache)
        inside = (tuning, self._work, self._work * self._samples)
        return self._phase(host, kept, reset=True, midway=inside)

    def _second(self, job: Job, batches: list[Integers]) -> Phase:
        addresses, host = self._memory.addresses, Host(self._patience)
        host.write(order=addresses["order_again"], logits=addresses["logits_again"], epochs=1)
        again = self._tune(job, host, batches, 0)
        host.write(logits=addresses["logits_infer"], cache=addresses["scratch"])
        inferred = logits_image(self._mapping, np.concatenate([job.logits(self._x[batch]) for batch in batches]))
        host.run(Command.INFER, batches=len(batches))
        host.write(cache=addresses["cache"])
        host.run(Command.SAVE_ADAPTERS)
        adapters = adapters_image(self._mapping, job.adapters)
        return self._phase(host, {"adapters": adapters, "logits_again": again, "logits_infer": inferred})

    def _third(self, batches: list[Integers]) -> Phase:
        """Other adapters, another size of batches, and a raw cache, which is new."""
        addresses, host, network = self._memory.addresses, Host(self._patience), self._spec.described
        adapters = self._adapters()
        image = adapters_image(self._mapping, adapters)
        host.run(Command.FORGET)
        host.run(Command.LOAD_ADAPTERS)
        host.write(order=addresses["order_raw"], logits=addresses["logits_raw"], cache=addresses["cache_raw"])
        host.write(epochs=EPOCHS, batch=len(batches[0]), mode=RAW | SHOW if self._outside else SHOW)
        codec = WordCodec(network) if self._outside else record_layout(network)
        cache = ForwardCache(network, codec, self._samples)
        job = Job(network, self._frozen, adapters, RATE, cache)
        logits = self._tune(job, host, batches, self._samples)
        host.run(Command.SAVE_ADAPTERS)
        kept = {"adapters": adapters_image(self._mapping, adapters), "logits_raw": logits}
        if self._outside:
            kept["cache_raw"] = cache_image(self._mapping, cache)
        return self._phase(host, kept, {addresses["adapters"]: image})

    def _tune(self, job: Job, host: Host, batches: list[Integers], misses: int) -> Bytes:
        """A tuning, with golden and by the host; the logits' image."""
        before = job.saturations
        logits = [job.batch(self._x[batch], self._labels[batch], batch).logits for batch in batches]
        host.run(Command.TUNE, batches=len(batches), misses=misses, saturations=job.saturations - before)
        return logits_image(self._mapping, np.concatenate(logits))

    def _phase(
        self,
        host: Host,
        kept: dict[str, Bytes],
        images: dict[int, Bytes] | None = None,
        reset: bool = False,
        midway: tuple[int, int, int] = (0, 7, 57),
    ) -> Phase:
        expected = {name: {"byte": image.reshape(-1, 1).astype(np.int64)} for name, image in kept.items()}
        memory = self._memory.images if reset else images or {}
        return Phase(
            expected={**expected, HOST: host.expected},
            reset=reset,
            memory={address: image.astype(np.int64) for address, image in memory.items()},
            kept={name: self._memory.addresses[name] for name in kept},
            script=tuple(host.steps),
            midway=midway,
        )

    def _adapters(self) -> Adapters:
        shape, rng = self._mapping.shape, self._rng
        a = [rng.normal(0, inputs**-0.5, inputs * shape.rank) for inputs in shape.inputs]
        b = rng.normal(0, 0.05, shape.classes * len(shape.inputs) * shape.rank)
        return Adapters(shape, np.rint(np.concatenate([*a, b]) * 4096).astype(np.int64))

    def _batches(self, epochs: int, size: int) -> list[Integers]:
        orders = [self._rng.permutation(self._samples) for _ in range(epochs)]
        return [order[at : at + size] for order in orders for at in range(0, self._samples, size)]

    def _labelled(self, batches: Sequence[Integers]) -> list[tuple[Integers, Integers]]:
        return [(batch, self._labels[batch]) for batch in batches]
