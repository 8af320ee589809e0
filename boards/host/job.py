"""Jobs on the fine-tuning core from the host: images of what it reads, in buffers, and its results back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...golden.axi.bus import BEAT
from ...golden.cores.instantft import InstantftSpec
from ...golden.cores.instantft_registers import REGISTERS, Command
from ...golden.errors import UserError
from ...golden.fixed import Integers
from ...golden.lora.adapters import Adapters
from ...golden.lora.images import adapters_image, adapters_of, order_image
from ...golden.lora.memory_layout import cache_bytes
from ...golden.nn.forward import StageIntegers
from ...golden.nn.images import frozen_image, samples_image
from .driver import Buffer, Core, Finished

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Tuned:
    """What a job gave.

    Parameters
    ----------
    finished : Finished
        Cycles, batches, samples that were new, values clipped.
    logits : array of int64, (visits, classes), optional
        Q8.16, of each visit before its batch's update, in their order.
    """

    finished: Finished
    logits: Integers | None


class FineTuner:
    """A core with its parameters, adapters and cache.

    Parameters
    ----------
    core : Core
        On a board, or simulated.
    spec : InstantftSpec
        With which it was generated.
    samples : int
        Entries of the cache that are used, one for each sample of a tuning set.
    raw : bool
        The cache holds Q8.16 (Skip2-LoRA) and not NF4 (InstantFT).

    Raises
    ------
    UserError
        If the core was generated with another spec, has fewer cache entries, or cannot keep Q8.16.
    """

    def __init__(self, core: Core, spec: InstantftSpec, samples: int, raw: bool = False) -> None:
        if core.signature != spec.signature:
            raise UserError(
                f"the core's signature is {core.signature:#010x}, this configuration's {spec.signature:#010x}: "
                "load the bitstream that was built for it"
            )
        if not 1 <= samples <= spec.cache_entries:
            raise UserError(f"{samples} samples: this core was generated for 1 to {spec.cache_entries}")
        if raw and spec.store_beats:
            raise UserError("the cache of this core is on the chip, in NF4: generate it with cache=dram for Q8.16")
        self.core, self.spec, self.mapping, self.samples, self.raw = core, spec, spec.mapping, samples, raw
        self._cache = core.allocate(BEAT if spec.store_beats else cache_bytes(self.mapping, raw, samples))
        self._adapters = core.allocate(self.mapping.adapter_beats * BEAT)

    def load(self, frozen: Sequence[StageIntegers]) -> Finished:
        """Load the frozen network."""
        image = self._given(frozen_image(self.mapping.forward, frozen))
        return self.core.run(Command.LOAD, parameters=image.device_address)

    def load_adapters(self, adapters: Adapters) -> Finished:
        """Load adapters; they stay until the next load."""
        self._adapters.array[:] = adapters_image(self.mapping, adapters)
        self._adapters.flush()
        return self.core.run(Command.LOAD_ADAPTERS, adapters=self._adapters.device_address)

    def adapters(self) -> Adapters:
        """The adapters as they are now."""
        self.core.run(Command.SAVE_ADAPTERS, adapters=self._adapters.device_address)
        self._adapters.invalidate()
        return adapters_of(self.mapping, self._adapters.array.copy())

    def forget(self) -> Finished:
        """Empty the cache: for another frozen network, or other samples."""
        return self.core.run(Command.FORGET)

    def tune(
        self,
        inputs: NDArray[np.integer],
        labels: Integers,
        epochs: Sequence[Sequence[Integers]],
        rate: int,
        logits: bool = False,
    ) -> Tuned:
        """Fine-tune.

        Parameters
        ----------
        inputs : array of int, (n, *input_shape)
            Pixels or Q8.16, as the core was generated.
        labels : array of int, (n,)
        epochs : sequence of sequences of array of int
            Indices of the samples of each batch. All batches of an epoch but its last are of one size.
        rate : int
            Of a sample, from `golden.lora.adapters.rate_of`.
        logits : bool
            Whether to bring them back.
        """
        if len(inputs) > self.samples or len(inputs) != len(labels):
            raise UserError(f"{len(inputs)} samples and {len(labels)} labels for a cache of {self.samples}")
        sizes = [[len(batch) for batch in epoch] for epoch in epochs]
        if not sizes or any(size != sizes[0] for size in sizes) or len(set(sizes[0][:-1])) > 1:
            raise UserError("epochs differ in their batches' sizes, or an epoch has two sizes before its last batch")
        batches = [(batch, labels[batch]) for epoch in epochs for batch in epoch]
        return self._run(
            Command.TUNE,
            inputs,
            batches,
            logits,
            cache_entries=self.samples,
            epochs=len(epochs),
            samples_per_epoch=sum(sizes[0]),
            batch=max(sizes[0]),
            rate=rate,
            mode=self._mode(logits),
        )

    def logits(self, inputs: NDArray[np.integer]) -> Integers:
        """Outputs of the tuned network, past the cache: (n, classes) in Q8.16."""
        size = self.spec.batch
        indices = np.arange(len(inputs))
        batches = [(batch, np.zeros_like(batch)) for batch in np.split(indices, range(size, len(indices), size))]
        room = self.core.allocate(cache_bytes(self.mapping, True, 2 * size))
        tuned = self._run(
            Command.INFER,
            inputs,
            batches,
            True,
            cache=room.device_address,
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
        batches: Sequence[tuple[Integers, Integers]],
        logits: bool,
        **settings: int,
    ) -> Tuned:
        samples = self._given(samples_image(self.mapping.forward, inputs).reshape(-1))
        order = self._given(order_image(batches))
        visits = sum(len(indices) for indices, _ in batches)
        room = self.core.allocate(visits * self.mapping.logit_beats * BEAT if logits else BEAT)
        settings = {"cache": self._cache.device_address, **settings}
        finished = self.core.run(
            command,
            samples=samples.device_address,
            order=order.device_address,
            logits=room.device_address,
            **settings,
        )
        if not logits:
            return Tuned(finished, None)
        room.invalidate()
        words = room.array.view("<i4").reshape(visits, -1)[:, : self.mapping.classes]
        return Tuned(finished, words.astype(np.int64))

    def _mode(self, logits: bool) -> int:
        mode = REGISTERS["mode"]
        return mode.field("raw").mask * self.raw | mode.field("write_logits").mask * logits

    def _given(self, image: Bytes) -> Buffer:
        buffer = self.core.allocate(image.size)
        buffer.array[:] = image
        buffer.flush()
        return buffer
