"""Device memory of a fine-tuning job: regions by register, sizes, images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..axi.bus import BEAT
from ..axi.regions import Bytes, Region
from ..fixed import Integers
from ..nf4.codec import RecordLayout
from ..nn.arithmetic.forward import StageIntegers
from ..nn.array.images import frozen_image, parameter_bytes, samples_image
from .adapters import Adapters
from .forward_cache import Codec, ForwardCache, Records
from .mapping import BEAT_PARAMETERS, SCALES, ZERO_CODE, AdapterMapping, Word


class JobLayout:
    """Regions that the commands of a fine-tuning core read and write.

    Every image begins on a beat of 16 bytes, lowest byte first.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Maximum number of samples in a batch.
    cache : "dram", "chip" or "none"
        Place of the forward cache. The region `cache` is an unused beat for ``chip``, and the scratch for ``none``.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, cache: str = "dram") -> None:
        self.mapping, self.batch, self._cache = mapping, batch, cache

    def parameters(self, frozen: Sequence[StageIntegers]) -> Region:
        """Frozen weights and biases, Q4.12 in two bytes; see `nn.images.frozen_image`."""
        return Region.containing("parameters", frozen_image(self.mapping.forward, frozen))

    def adapters(self, adapters: Adapters | None = None) -> Region:
        """Adapters, Q4.12 in two bytes, see `adapters_image`; by default room for the core's adapters."""
        if adapters is None:
            return Region("adapters", self.mapping.adapter_beats * BEAT)
        return Region.containing("adapters", adapters_image(self.mapping, adapters))

    def adapters_of(self, image: Bytes) -> Adapters:
        """Adapters from their image."""
        return adapters_of(self.mapping, image)

    def samples(self, inputs: NDArray[np.integer]) -> Region:
        """Samples, (n, *input_shape): bytes, or Q8.16 in four bytes, as the core is generated."""
        return Region.containing("samples", samples_image(self.mapping.forward, inputs))

    def order(self, batches: Sequence[tuple[Integers, Integers]], rates: Sequence[int | None] = ()) -> Region:
        """Sample schedule of (indices, labels) batches, see `order_image`."""
        return Region.containing("order", order_image(batches, rates))

    def cache(self, entries: int, raw: bool) -> Region:
        """Forward cache of `entries` samples, in NF4 or (`raw`) in Q8.16; see `records_image`."""
        if self._cache == "none":
            return self.scratch()
        return Region("cache", BEAT if self._cache == "chip" else self._records_bytes(entries, raw))

    def scratch(self) -> Region:
        """Region `cache` of an inference, or of a core without a cache: Q8.16 records of two maximum batches."""
        return Region("cache", self._records_bytes(2 * self.batch, raw=True))

    def logits(self, entries: int) -> Region:
        """Logits of `entries` schedule entries; an unused beat for 0."""
        return Region("logits", max(entries * self.mapping.logit_beats, 1) * BEAT)

    def logits_image(self, logits: Integers) -> Bytes:
        """Image of logits, (entries, classes) in Q8.16: 4 bytes a class, each entry begins on a beat."""
        padded = np.pad(logits, ((0, 0), (0, self.mapping.logit_beats * BEAT // 4 - logits.shape[1])))
        return np.ascontiguousarray(padded, "<i4").view(np.uint8).reshape(-1)

    def logits_of(self, image: Bytes) -> Integers:
        """Logits from their image: (entries, classes) in Q8.16."""
        words = image.view("<i4").reshape(-1, self.mapping.logit_beats * BEAT // 4)
        return words[:, : self.mapping.classes].astype(np.int64)

    def records_image(self, codec: Codec, records: Records) -> Bytes:
        """Image of records, see `records_image`."""
        return records_image(self.mapping, codec, records)

    def _records_bytes(self, entries: int, raw: bool) -> int:
        return entries * (self.mapping.raw_beats if raw else self.mapping.record_beats) * BEAT


LABEL_BIT = 24
"""Lowest bit of the label in an entry of the sample schedule; the sample's index is below."""


def adapters_image(mapping: AdapterMapping, adapters: Adapters) -> Bytes:
    """Image of the adapters, (16 * adapter_beats,) bytes: every A row by row, then B class by class."""
    values = np.zeros((mapping.adapter_rows, mapping.lanes, mapping.words_per_cycle, mapping.ranks), np.int64)
    for row, part, a, word in _row_words(mapping, adapters):
        values[row, : word.count, part, : mapping.rank] = a[word.first : word.first + word.count]
    b = adapters.b.reshape(mapping.classes * mapping.adapters, mapping.rank)
    b = np.pad(b, ((0, 0), (0, BEAT_PARAMETERS - mapping.rank)))
    return parameter_bytes(np.concatenate([values.reshape(-1), b.reshape(-1)]))


def adapters_of(mapping: AdapterMapping, image: Bytes) -> Adapters:
    """Adapters from their image."""
    values, b = np.split(image.view("<i2").astype(np.int64), [mapping.adapter_rows * mapping.lanes * mapping.columns])
    values = values.reshape(mapping.adapter_rows, mapping.lanes, mapping.words_per_cycle, mapping.ranks)
    adapters = Adapters(mapping.shape, np.zeros(mapping.shape.parameters, np.int64))
    for row, part, a, word in _row_words(mapping, adapters):
        a[word.first : word.first + word.count] = values[row, : word.count, part, : mapping.rank]
    b = b.reshape(-1, BEAT_PARAMETERS)[:, : mapping.rank]
    adapters.b[:] = b.reshape(adapters.b.shape)
    return adapters


def update_order(mapping: AdapterMapping) -> Integers:
    """Index of each updated parameter in the stream of update writes, (updated parameters,), as `Adapters.flat`.

    A write has `words_per_cycle` beats of A, or one beat of B followed by ignored beats.
    """
    count = mapping.a_beats * BEAT // 2
    values = np.arange(count).reshape(mapping.adapter_rows, mapping.lanes, mapping.words_per_cycle, mapping.ranks)
    order = Adapters(mapping.shape, np.zeros(mapping.shape.parameters, np.int64))
    for row, part, a, word in _row_words(mapping, order):
        a[word.first : word.first + word.count] = values[row, : word.count, part, : mapping.rank]
    entries = np.arange(mapping.classes * mapping.adapters)[:, None] * (mapping.words_per_cycle * BEAT // 2)
    order.b[:] = (count + entries + np.arange(mapping.rank)).reshape(order.b.shape)
    return order.flat[: mapping.shape.updated]


def order_image(batches: Sequence[tuple[Integers, Integers]], rates: Sequence[int | None] = ()) -> Bytes:
    """Image of the sample schedule of (indices, labels) batches: 4 bytes an entry, each batch begins on a beat.

    Bits 23:0 of an entry are the sample's index, bits 31:24 its label. With `rates`, the word after a batch's entries
    is its learning rate; None for a validation batch.
    """
    parts = []
    for number, (indices, labels) in enumerate(batches):
        rate_words = [rate for rate in rates[number : number + 1] if rate is not None]
        words = np.concatenate([indices | labels << LABEL_BIT, rate_words])
        entries = words.astype("<u4").view(np.uint8)
        parts.append(np.pad(entries, (0, -len(entries) % BEAT)))
    return np.concatenate(parts)


def cache_image(mapping: AdapterMapping, cache: ForwardCache) -> Bytes:
    """Image of a cache, (entries, bytes)."""
    return records_image(mapping, cache.codec, cache.records)


def records_image(mapping: AdapterMapping, codec: Codec, records: Records) -> Bytes:
    """Image of records, (records, bytes): every word begins on a beat."""
    counts = [word.count for tensor in mapping.record_words for word in tensor]
    if not isinstance(codec, RecordLayout):
        values = _by_word(codec.dequantise(records), counts, mapping.lanes, 0)
        return np.ascontiguousarray(values, "<i4").view(np.uint8).reshape(len(values), -1)
    codes, scales = codec.unpack(records)
    width = mapping.word_codes * 2 * BEAT
    nibbles = _by_word(codes.astype(np.int64), counts, width, ZERO_CODE)
    packed = (nibbles[..., ::2] | nibbles[..., 1::2] << 4).astype(np.uint8).reshape(len(codes), -1)
    padded = np.pad(scales, ((0, 0), (0, mapping.scale_beats * SCALES - scales.shape[1])))
    return np.concatenate([packed, np.ascontiguousarray(padded, "<u4").view(np.uint8)], axis=1)


def _by_word(values: Integers, counts: list[int], width: int, padding: int) -> Integers:
    """Spread (samples, values) over words of `counts` values each: (samples, words, width)."""
    image = np.full((len(values), len(counts), width), padding, np.int64)
    image[:, np.arange(width) < np.array(counts)[:, None]] = values
    return image


def _row_words(mapping: AdapterMapping, adapters: Adapters) -> list[tuple[int, int, Integers, Word]]:
    """Row, index in the row, matrix A and word of an adapter's input, for each word of all inputs."""
    begins = np.cumsum([0, *mapping.rows_per_adapter]).tolist()
    return [
        (begin + number // mapping.words_per_cycle, number % mapping.words_per_cycle, a, word)
        for begin, a, words in zip(begins, adapters.a, mapping.adapter_words, strict=False)
        for number, word in enumerate(words)
    ]
