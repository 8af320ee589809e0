"""Device memory of a fine-tuning job: its regions by register, their sizes and images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..axi.bus import BEAT
from ..axi.regions import Region
from ..fixed import Integers
from ..nn.arithmetic.forward import StageIntegers
from ..nn.array.images import frozen_image, samples_image
from .adapters import Adapters
from .images import adapters_image, order_image
from .mapping import AdapterMapping


class JobLayout:
    """Regions that the commands of a fine-tuning core read and write.

    Every image begins on a beat of 16 bytes, lowest byte first.

    Parameters
    ----------
    mapping : AdapterMapping
        Network and adapters on the core.
    batch : int
        Most samples of a batch.
    cache : "dram", "chip" or "none"
        Place of the forward cache. The region `cache` is a single unused beat where it is on the chip, and the scratch
        where there is none.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, cache: str = "dram") -> None:
        self.mapping, self.batch, self._cache = mapping, batch, cache

    def parameters(self, frozen: Sequence[StageIntegers]) -> Region:
        """Frozen weights and biases, Q4.12 in two bytes; see `nn.images.frozen_image`."""
        return Region.containing("parameters", frozen_image(self.mapping.forward, frozen))

    def adapters(self, adapters: Adapters | None = None) -> Region:
        """Adapters, Q4.12 in two bytes, see `images.adapters_image`; without them room for the core to save its own."""
        if adapters is None:
            return Region("adapters", self.mapping.adapter_beats * BEAT)
        return Region.containing("adapters", adapters_image(self.mapping, adapters))

    def samples(self, inputs: NDArray[np.integer]) -> Region:
        """Samples, (n, *input_shape): bytes, or Q8.16 in four bytes, as the core was generated."""
        return Region.containing("samples", samples_image(self.mapping.forward, inputs))

    def order(self, batches: Sequence[tuple[Integers, Integers]], rates: Sequence[int | None] = ()) -> Region:
        """Order list of (indices, labels) batches, with or without their rates; see `images.order_image`."""
        return Region.containing("order", order_image(batches, rates))

    def cache(self, entries: int, raw: bool) -> Region:
        """Forward cache of so many samples, in NF4 or (`raw`) in Q8.16; see `images.cache_image`."""
        if self._cache == "none":
            return self.scratch()
        return Region("cache", BEAT if self._cache == "chip" else self._records_bytes(entries, raw))

    def scratch(self) -> Region:
        """Stand-in for the cache where none is used, as in inferences: Q8.16 records of two of the largest batches."""
        return Region("cache", self._records_bytes(2 * self.batch, raw=True))

    def logits(self, entries: int) -> Region:
        """Logits of so many order entries; a single unused beat for 0."""
        return Region("logits", max(entries * self.mapping.logit_beats, 1) * BEAT)

    def _records_bytes(self, entries: int, raw: bool) -> int:
        return entries * (self.mapping.raw_beats if raw else self.mapping.record_beats) * BEAT
