"""4-bit NormalFloat codec (QLoRA, appendix E) for the forward cache, in integers without a divider.

The scale of a block of Q8.16 values is the largest magnitude. A value's code is the number of thresholds below the
value; thresholds are midpoints of neighbouring levels times the scale. The contract in words: docs/nf4.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Q8_16, Floats, Integers, narrow

Codes = NDArray[np.uint8]
_AnyArray = NDArray[Any]

CODES: Floats = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)
"""Levels of the codes 0 to 15, as in QLoRA's library bitsandbytes."""
LEVEL_FRACTION = 16
LEVELS: Integers = np.rint(np.ldexp(CODES.astype(np.float64), LEVEL_FRACTION)).astype(np.int64)
"""Levels with 16 fraction bits: 18 bits signed, a DSP's narrow operand."""
MIDPOINTS: Floats = (CODES[:-1] + CODES[1:]) / np.float32(2)
"""Midpoints of neighbouring levels, in float32."""
THRESHOLD_FRACTION = 28
THRESHOLDS: Integers = np.ldexp(MIDPOINTS.astype(np.float64), THRESHOLD_FRACTION).astype(np.int64)
"""Midpoints as exact integers: 28 fraction bits are the fewest, 29 bits signed."""
SCALE_BYTES = 4


def quantise(values: Integers) -> tuple[Codes, Integers]:
    """Codes and scales of blocks.

    A value at a threshold gets the lower code. A block of zeros has scale 0 and codes 0, and is dequantised to zeros.
    Raises `UserError` if the values are not Q8.16 integers, or a block is empty.

    Parameters
    ----------
    values : array of int, (..., length)
        Q8.16; a block along the last axis.

    Returns
    -------
    codes : array of uint8, (..., length)
        0 to 15.
    scales : array of int64, (...)
        Largest magnitude, Q8.16; for -128, outside the format, the largest positive number.
    """
    _check_blocks(values)
    _check_integers("a value", values, Q8_16.minimum, Q8_16.maximum)
    scales = np.minimum(np.maximum(values.max(axis=-1), -values.min(axis=-1).astype(np.int64)), Q8_16.maximum)
    return codes_of(values, scales), scales


def codes_of(values: Integers, scales: Integers) -> Codes:
    """Codes of blocks (..., length) with known scales (...); any value has a code."""
    # an integer exceeds a real number exactly if it exceeds the number's floor
    return _count_below(values, (scales[..., None] * THRESHOLDS) >> THRESHOLD_FRACTION)


def dequantise(codes: Codes, scales: Integers) -> Integers:
    """Values of blocks, (..., length): levels times scales, rounded half to even to Q8.16.

    `codes` are (..., length), `scales` (...) in Q8.16. Raises `UserError` if a code is above 15, a scale negative or
    above the largest Q8.16, or the shapes do not fit.
    """
    _check_blocks(codes)
    _check_integers("a code", codes, 0, len(CODES) - 1)
    if scales.shape != codes.shape[:-1]:
        raise UserError(f"codes {codes.shape} have scales {codes.shape[:-1]}, not {scales.shape}")
    levels = _levels(scales)
    result: Integers = np.take_along_axis(levels, codes.astype(np.int64), axis=-1)
    return result


def quantise_floats(values: Floats) -> Floats:
    """Values (..., length) quantised to NF4 and dequantised in float32, for the float engine.

    The rules are those of the integers without rounding: exact thresholds, level times scale in float32. Raises
    `UserError` if a value has another type, is NaN or infinite, or a block is empty.
    """
    _check_blocks(values)
    if values.dtype != np.float32:
        raise UserError(f"the float cache holds float32, not {values.dtype}")
    scales = np.maximum(values.max(axis=-1), -values.min(axis=-1))
    if not np.isfinite(scales).all():
        raise UserError("an activation or logit is NaN or infinite: it has no NF4 code; lower the learning rate")
    # a product of two float32 is exact in float64
    codes = _count_below(values.astype(np.float64), scales.astype(np.float64)[..., None] * MIDPOINTS)
    result: Floats = CODES.take(codes) * scales[..., None]
    return result


@dataclass(frozen=True)
class RecordLayout:
    """Layout of a sample's record in the forward cache; `blocks` has number and length of the blocks of each tensor.

    First all codes, two a byte, the first in the high nibble, without gaps between blocks; for an odd number the last
    low nibble is 0. Then all scales, four bytes each, little-endian. For LeNet-5: 895 + 100 bytes. Raises `UserError`
    if `blocks` or a block is empty.
    """

    blocks: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.blocks or min(min(pair) for pair in self.blocks) < 1:
            raise UserError(f"a record has blocks of at least 1 value, not {self.blocks}")

    @cached_property
    def values(self) -> int:
        return sum(count * length for count, length in self.blocks)

    @cached_property
    def scales(self) -> int:
        """Scales of a sample, a scale per block."""
        return sum(count for count, _ in self.blocks)

    @property
    def code_bytes(self) -> int:
        return -(-self.values // 2)

    @property
    def bytes(self) -> int:
        return self.code_bytes + SCALE_BYTES * self.scales

    def quantise(self, values: Integers) -> Codes:
        """Records (n, self.bytes) of samples (n, self.values) in Q8.16."""
        _check_rows(values, self.values)
        pairs = [quantise(tensor) for tensor in self._tensors(values)]
        return self._packed(
            self._joined([codes for codes, _ in pairs]), np.concatenate([scales for _, scales in pairs], axis=1)
        )

    def dequantise(self, records: Codes) -> Integers:
        """Values of records: (n, self.values) in Q8.16."""
        codes, scales = self.unpack(records)
        # 16 products a scale, then a look-up for each value; row by row, as large temporaries cause page faults
        levels = _levels(scales).reshape(len(records), self.scales * len(LEVELS))
        values = np.empty(codes.shape, np.int64)
        for row, indices, table in zip(values, codes, levels, strict=True):
            table.take(self._rows + indices, out=row, mode="clip")  # nothing to clip: "raise" would copy the output
        return values

    def quantise_floats(self, values: Floats) -> Floats:
        """Values quantised to NF4 and dequantised in float32: (n, self.values)."""
        _check_rows(values, self.values)
        return self._joined([quantise_floats(tensor) for tensor in self._tensors(values)])

    def pack(self, codes: Codes, scales: Integers) -> Codes:
        """Records (n, self.bytes) of codes (n, self.values) and scales (n, self.scales)."""
        _check_rows(codes, self.values)
        _check_rows(scales, self.scales)
        _check_integers("a code", codes, 0, len(CODES) - 1)
        _check_integers("a scale", scales, 0, Q8_16.maximum)
        if len(codes) != len(scales):
            raise UserError(f"codes of {len(codes)} samples, scales of {len(scales)}")
        return self._packed(codes.astype(np.uint8, copy=False), scales)

    def unpack(self, records: Codes) -> tuple[Codes, Integers]:
        """Codes (n, self.values) and scales (n, self.scales) of records (n, self.bytes)."""
        _check_rows(records, self.bytes)
        if records.dtype != np.uint8:
            raise UserError(f"a record is bytes (uint8), not {records.dtype}")
        packed = records[:, : self.code_bytes]
        codes = np.empty((len(records), 2 * self.code_bytes), np.uint8)
        np.right_shift(packed, 4, out=codes[:, ::2])
        np.bitwise_and(packed, 15, out=codes[:, 1::2])
        scales = np.ascontiguousarray(records[:, self.code_bytes :]).view("<u4").astype(np.int64)
        return codes[:, : self.values], scales

    def _packed(self, codes: Codes, scales: Integers) -> Codes:
        even = np.pad(codes, ((0, 0), (0, 1))) if self.values % 2 else codes
        packed = even[:, ::2] << 4 | even[:, 1::2]
        return np.concatenate([packed, np.ascontiguousarray(scales, "<u4").view(np.uint8)], axis=1)

    @cached_property
    def _rows(self) -> Integers:
        """Offset of the sixteen levels of each value."""
        lengths = [length for count, length in self.blocks for _ in range(count)]
        rows: Integers = np.repeat(np.arange(self.scales) * len(LEVELS), lengths)
        return rows

    def _tensors(self, values: _AnyArray) -> list[_AnyArray]:
        ends = np.cumsum([count * length for count, length in self.blocks])[:-1]
        parts = np.split(values, ends, axis=1)
        return [part.reshape(len(values), *pair) for part, pair in zip(parts, self.blocks, strict=True)]

    def _joined(self, tensors: list[_AnyArray]) -> _AnyArray:
        pairs = zip(tensors, self.blocks, strict=True)
        return np.concatenate([tensor.reshape(-1, count * length) for tensor, (count, length) in pairs], axis=1)


def _count_below(values: _AnyArray, borders: _AnyArray) -> Codes:
    """Number of the block's borders (..., 15) below each value (..., length)."""
    codes = np.zeros(values.shape, np.uint8)
    for number in range(borders.shape[-1]):
        codes += values > borders[..., number, None]
    return codes


def _levels(scales: Integers) -> Integers:
    """Sixteen values of each block: (..., 16), Q8.16."""
    _check_integers("a scale", scales, 0, Q8_16.maximum)
    return narrow(scales[..., None] * LEVELS, Q8_16.fraction + LEVEL_FRACTION, Q8_16)


def _check_blocks(array: _AnyArray) -> None:
    if not array.ndim or not array.shape[-1]:
        raise UserError(f"a block has at least 1 value; {array.shape} has none")


def _check_rows(array: _AnyArray, width: int) -> None:
    if array.ndim != 2 or array.shape[1] != width:
        raise UserError(f"this layout needs (n, {width}), not {array.shape}")


def _check_integers(what: str, array: _AnyArray, low: int, high: int) -> None:
    if array.dtype.kind not in "iu":
        raise UserError(f"{what} is an integer, not {array.dtype}")
    if array.size and not low <= array.min() <= array.max() <= high:
        raise UserError(f"{what} is {low} to {high}; found {array.min()} to {array.max()}")
