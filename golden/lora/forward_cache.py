"""Forward cache: outputs of the frozen network, stored per sample for later epochs (InstantFT, section 3.1).

A record holds the outputs of every stage: the inputs of all adapters except the first, and the base logits. Training
uses the stored values from the first epoch on: a sample has the same values in every epoch.
"""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Floats, Integers
from ..models.network import Network
from ..nf4.codec import RecordLayout

Records = NDArray[np.uint8]


class Codec(Protocol):
    """Conversion between the values of a sample and a record of bytes."""

    @property
    def values(self) -> int:
        """Values of a sample."""

    @property
    def bytes(self) -> int:
        """Bytes of a record."""

    def quantise(self, values: Integers) -> Records:
        """Encode values (n, values) in Q8.16 to records (n, bytes)."""

    def dequantise(self, records: Records) -> Integers:
        """Decode records (n, bytes) to values (n, values) in Q8.16."""

    def quantise_floats(self, values: Floats) -> Floats:
        """Values (n, values) after storage in a cache of the float engine, float32."""


class WordCodec:
    """Codec at full width: Q8.16 sign-extended to four bytes, little-endian, as in Skip2-LoRA's cache."""

    def __init__(self, network: Network) -> None:
        self.values = cached_values(network)
        self.bytes = 4 * self.values

    def quantise(self, values: Integers) -> Records:
        """Encode values (n, values) in Q8.16 to records (n, bytes)."""
        return np.ascontiguousarray(values, "<i4").view(np.uint8)

    def dequantise(self, records: Records) -> Integers:
        """Decode records (n, bytes) to values (n, values) in Q8.16."""
        return np.ascontiguousarray(records).view("<i4").astype(np.int64)

    def quantise_floats(self, values: Floats) -> Floats:
        """Values (n, values) in float32, unchanged."""
        return values


def widths(network: Network) -> tuple[int, ...]:
    """Cached values of each stage's output."""
    return tuple(prod(stage.output_shape) for stage in network.stages)


def cached_values(network: Network) -> int:
    """Values in a sample's record: 1,790 for LeNet-5."""
    return sum(widths(network))


def record_layout(network: Network) -> RecordLayout:
    """Layout of an NF4 record: a block is a channel of a stage's output, or a whole vector."""
    shapes = [stage.output_shape for stage in network.stages]
    return RecordLayout(tuple((shape[0], prod(shape[1:])) if len(shape) == 3 else (1, shape[0]) for shape in shapes))


class ForwardCache:
    """Cache with one record per sample.

    Parameters
    ----------
    codec : Codec
        `nf4.codec.RecordLayout` or `WordCodec`.

    Attributes
    ----------
    records : array of uint8, (samples, codec.bytes)
        Encoded entries.
    valid : array of bool, (samples,)
        True for filled entries.
    """

    def __init__(self, network: Network, codec: Codec, samples: int) -> None:
        if samples < 1:
            raise UserError(f"a cache has room for at least 1 sample, not {samples}")
        self.codec = codec
        self.records: Records = np.zeros((samples, codec.bytes), np.uint8)
        self.valid = np.zeros(samples, np.bool_)
        self._ends = np.cumsum(widths(network))[:-1]

    def missing(self, indices: Integers) -> Integers:
        """Positions in a batch of uncached samples, each sample once.

        Raises
        ------
        UserError
            If an index is outside the cache.
        """
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self.valid):
            raise UserError(f"an index of {indices.tolist()} is beyond the cache's {len(self.valid)} samples")
        first = np.unique(indices, return_index=True)[1]
        absent: Integers = np.sort(first[~self.valid[indices[first]]])
        return absent

    def fill(self, indices: Integers, outputs: list[Integers]) -> None:
        """Store the outputs of all stages, each (n, values) in Q8.16."""
        self.records[indices] = self.codec.quantise(np.concatenate(outputs, axis=1))
        self.valid[indices] = True

    def read(self, indices: Integers) -> list[Integers]:
        """Outputs of all stages, each (n, values) in Q8.16."""
        return np.split(self.codec.dequantise(self.records[indices]), self._ends, axis=1)
