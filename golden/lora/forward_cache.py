"""The forward cache: what the frozen network gave for a sample, kept for its next visit (InstantFT, section 3.1).

Kept are the outputs of every stage: the inputs of all adapters but the first, and the base logits. Training
always reads them back, on the first visit too, so that a sample is the same numbers in every epoch.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Integers
from ..models.network import Network
from ..nf4.codec import RecordLayout

Records = NDArray[np.uint8]


class Codec(Protocol):
    """How a sample's values become a record of bytes."""

    @property
    def values(self) -> int:
        """Values of a sample."""

    @property
    def bytes(self) -> int:
        """Bytes of a record."""

    def quantise(self, values: Integers) -> Records:
        """(n, values) in Q8.16 to (n, bytes)."""

    def dequantise(self, records: Records) -> Integers:
        """(n, bytes) to (n, values) in Q8.16."""


class WordCodec:
    """Q8.16 as it is, sign-extended to four bytes, the lowest first: Skip2-LoRA's cache."""

    def __init__(self, network: Network) -> None:
        self.values = cached_values(network)
        self.bytes = 4 * self.values

    def quantise(self, values: Integers) -> Records:
        """(n, values) in Q8.16 to (n, bytes)."""
        return np.ascontiguousarray(values, "<i4").view(np.uint8)

    def dequantise(self, records: Records) -> Integers:
        """(n, bytes) to (n, values) in Q8.16."""
        return np.ascontiguousarray(records).view("<i4").astype(np.int64)


def widths(network: Network) -> tuple[int, ...]:
    """Values that each stage leaves of a sample."""
    return (*(stage.inputs for stage in network.stages[1:]), network.classes)


def cached_values(network: Network) -> int:
    """Values of a sample's record: 1,790 for LeNet-5."""
    return sum(widths(network))


def record_layout(network: Network) -> RecordLayout:
    """NF4 record of a sample: blocks are the channels of the inputs of all stages but the first, and the logits."""
    tensors = [(stage.channels, stage.inputs // stage.channels) for stage in network.stages[1:]]
    return RecordLayout((*tensors, (1, network.classes)))


class ForwardCache:
    """Records of `samples` samples.

    Parameters
    ----------
    network : Network
    codec : Codec
        `nf4.RecordLayout` or `WordCodec`.
    samples : int
        Places.

    Attributes
    ----------
    records : array of uint8, (samples, codec.bytes)
        As they lie in the memory beside the hardware.
    valid : array of bool, (samples,)
    """

    def __init__(self, network: Network, codec: Codec, samples: int) -> None:
        if samples < 1:
            raise UserError(f"a cache has room for at least 1 sample, not {samples}")
        self.codec = codec
        self.records: Records = np.zeros((samples, codec.bytes), np.uint8)
        self.valid = np.zeros(samples, np.bool_)
        self._ends = np.cumsum(widths(network))[:-1]

    def missing(self, indices: Integers) -> Integers:
        """Places within the batch of the samples that are not there yet, each once.

        Raises
        ------
        UserError
            If an index is beyond the cache.
        """
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self.valid):
            raise UserError(f"an index of {indices.tolist()} is beyond the cache's {len(self.valid)} samples")
        first = np.unique(indices, return_index=True)[1]
        absent: Integers = np.sort(first[~self.valid[indices[first]]])
        return absent

    def fill(self, indices: Integers, outputs: list[Integers]) -> None:
        """Keep the outputs of all stages, each (n, values) in Q8.16."""
        self.records[indices] = self.codec.quantise(np.concatenate(outputs, axis=1))
        self.valid[indices] = True

    def read(self, indices: Integers) -> list[Integers]:
        """The outputs of all stages as they were kept, each (n, values) in Q8.16."""
        return np.split(self.codec.dequantise(self.records[indices]), self._ends, axis=1)
