"""Memory images of adapters and of a job's order, byte for byte as the core reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..axi.bus import BEAT
from ..fixed import Integers
from ..nn.images import Bytes, column_rows, parameter_bytes
from .adapters import Adapters
from .mapping import AdapterMapping, Word


def adapters_image(mapping: AdapterMapping, adapters: Adapters) -> Bytes:
    """Build the adapters' image, (16 * adapter_beats,) bytes: every A row by row, then B class by class."""
    values = np.zeros((mapping.adapter_rows, mapping.lanes, mapping.words_per_cycle, mapping.ranks), np.int64)
    for row, part, a, word in _row_words(mapping, adapters):
        values[row, : word.count, part, : mapping.rank] = a[word.first : word.first + word.count]
    b = adapters.b.reshape(mapping.classes * mapping.adapters, mapping.rank)
    b = np.pad(b, ((0, 0), (0, mapping.columns - mapping.rank)))
    return parameter_bytes(np.concatenate([values.reshape(-1), column_rows(mapping.forward, b)]))


def adapters_of(mapping: AdapterMapping, image: Bytes) -> Adapters:
    """Read adapters from their image."""
    values, b = np.split(image.view("<i2").astype(np.int64), [mapping.adapter_rows * mapping.lanes * mapping.columns])
    values = values.reshape(mapping.adapter_rows, mapping.lanes, mapping.words_per_cycle, mapping.ranks)
    found = Adapters(mapping.shape, np.zeros(mapping.shape.parameters, np.int64))
    for row, part, a, word in _row_words(mapping, found):
        a[word.first : word.first + word.count] = values[row, : word.count, part, : mapping.rank]
    b = b.reshape(-1, mapping.forward.column_beats * BEAT // 2)[:, : mapping.rank]
    found.b[:] = b.reshape(found.b.shape)
    return found


def order_image(batches: Sequence[tuple[Integers, Integers]]) -> Bytes:
    """Build the order list of (indices, labels) batches: 4 bytes an entry, a batch begun on a beat of its own."""
    parts = []
    for indices, labels in batches:
        entries = (indices | labels << 24).astype("<u4").view(np.uint8)
        parts.append(np.pad(entries, (0, -len(entries) % BEAT)))
    return np.concatenate(parts)


def _row_words(mapping: AdapterMapping, adapters: Adapters) -> list[tuple[int, int, Integers, Word]]:
    """Row, number in the row, matrix A and word of an adapter's input, for each word of all inputs."""
    begins = np.cumsum([0, *mapping.rows_per_adapter]).tolist()
    return [
        (begin + number // mapping.words_per_cycle, number % mapping.words_per_cycle, a, word)
        for begin, a, words in zip(begins, adapters.a, mapping.adapter_words, strict=False)
        for number, word in enumerate(words)
    ]
