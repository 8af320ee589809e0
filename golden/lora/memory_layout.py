"""A job's memory as the core sees it: where its images lie, and the image of the forward cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..axi.bus import BEAT
from ..fixed import Integers
from ..nf4.codec import RecordLayout
from ..nn.images import Bytes
from .forward_cache import ForwardCache
from .mapping import SCALES, ZERO_CODE, AdapterMapping

ALIGNMENT = 4096


class JobMemory:
    """Regions of a memory, one behind the other.

    Parameters
    ----------
    base : int
        Byte address of the first, a multiple of `ALIGNMENT`.

    Attributes
    ----------
    addresses : dict of str to int
        By the name of the register that holds the address, where there is one.
    images : dict of int to array of uint8
        What lies there at first, by address.
    end : int
        The first address behind the last region.
    """

    def __init__(self, base: int = 0) -> None:
        self.addresses: dict[str, int] = {}
        self.images: dict[int, Bytes] = {}
        self.end = base

    def put(self, name: str, image: NDArray[np.uint8]) -> None:
        """A region with contents."""
        self.reserve(name, image.size)
        self.images[self.addresses[name]] = image.reshape(-1)

    def reserve(self, name: str, size: int) -> None:
        """A region of so many bytes without."""
        self.addresses[name] = self.end
        self.end += -(-size // ALIGNMENT) * ALIGNMENT


def cache_bytes(mapping: AdapterMapping, raw: bool, places: int) -> int:
    """Bytes of a cache with so many places."""
    return places * (mapping.raw_beats if raw else mapping.record_beats) * BEAT


def cache_image(mapping: AdapterMapping, cache: ForwardCache) -> Bytes:
    """A cache as the core writes it: every word of a record on a beat of its own, (places, bytes)."""
    words = [word for tensor in mapping.record_words for word in tensor]
    if not isinstance(cache.codec, RecordLayout):
        values = _by_word(cache.codec.dequantise(cache.records), [word.count for word in words], mapping.lanes, 0)
        return np.ascontiguousarray(values, "<i4").view(np.uint8).reshape(len(values), -1)
    codes, scales = cache.codec.unpack(cache.records)
    width = mapping.word_codes * 2 * BEAT
    nibbles = _by_word(codes.astype(np.int64), [word.count for word in words], width, ZERO_CODE)
    packed = (nibbles[..., ::2] | nibbles[..., 1::2] << 4).astype(np.uint8).reshape(len(codes), -1)
    padded = np.pad(scales, ((0, 0), (0, mapping.scale_beats * SCALES - scales.shape[1])))
    return np.concatenate([packed, np.ascontiguousarray(padded, "<u4").view(np.uint8)], axis=1)


def logits_image(mapping: AdapterMapping, logits: Integers) -> Bytes:
    """Logits (visits, classes) as the core writes them: four bytes a class, a sample begun on a beat of its own."""
    padded = np.pad(logits, ((0, 0), (0, mapping.logit_beats * BEAT // 4 - logits.shape[1])))
    return np.ascontiguousarray(padded, "<i4").view(np.uint8).reshape(-1)


def _by_word(values: Integers, counts: list[int], width: int, padding: int) -> Integers:
    """(samples, values) to (samples, words, width), as many values a word as it has."""
    image = np.full((len(values), len(counts), width), padding, np.int64)
    image[:, np.arange(width) < np.array(counts)[:, None]] = values
    return image
