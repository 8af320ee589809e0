"""Samples in DRAM: rows of 32 values of 3 bytes, several rows per token."""

from __future__ import annotations

import numpy as np

from ...axi.bus import BEAT
from ...axi.regions import Bytes
from ...fixed import Integers

ROW, VALUE_BYTES = 32, 3
"""Values of a row, and bytes of each."""
ROW_BEATS = ROW * VALUE_BYTES // BEAT


def token_beats(features: int) -> int:
    return -(-features // ROW) * ROW_BEATS


def token_rows(values: Integers) -> Bytes:
    """Image of tokens, (tokens, features): 24-bit two's complement, lowest byte first, zero padding."""
    padded = np.ascontiguousarray(np.pad(values, ((0, 0), (0, -values.shape[1] % ROW))), "<i4")
    return padded.view(np.uint8).reshape(-1, 4)[:, :VALUE_BYTES].reshape(-1)


def tokens_of(image: Bytes, features: int) -> Integers:
    """Tokens of an image, (tokens, values of whole rows)."""
    wide = np.zeros((len(image) // VALUE_BYTES, 4), np.uint8)
    wide[:, 1:] = image.reshape(-1, VALUE_BYTES)
    return (wide.view("<i4").astype(np.int64) >> 8).reshape(-1, -(-features // ROW) * ROW)
