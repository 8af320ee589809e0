"""Memories of tuning with adapters: batch memory, adapters, logit head, records and sample schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..axi.bus import BEAT
from ..fixed import Q4_12, Q8_16, accumulator_width
from ..memories.plan import MemoryShape
from ..nf4.nf4_dequant import SCALE
from ..nf4.nf4_quant import Nf4QuantSpec
from ..nn.array.memories import parameter_memory
from ..nn.softmax import SoftmaxSpec
from .mapping import SCALES, AdapterMapping

LOGIT_FIFO_DEPTH = 64
"""Fewest words of the FIFO of logits before the softmax."""
WORD = 32
"""Bits of a word of the sample schedule, and marks of cached samples in a word."""


def adapter_memory(mapping: AdapterMapping) -> MemoryShape:
    """Memory of A of all adapters."""
    words = mapping.words_per_cycle
    return parameter_memory("A of adapters", mapping.adapter_rows, mapping.lanes, mapping.columns, words)


def batch_memory(mapping: AdapterMapping, batch: int, halves: int = 2) -> MemoryShape:
    """Batch memory with room for `halves` batches: a bank for each word of a row."""
    depth = halves * batch * mapping.sample_rows
    return MemoryShape("batch", depth, mapping.lanes * Q8_16.width, mapping.words_per_cycle, lut_rows=0, ultra=True)


def half_fifo_depth(mapping: AdapterMapping) -> int:
    """Words of each FIFO of logits in a head with two classes a cycle."""
    return max(LOGIT_FIFO_DEPTH // 2, 2 << (mapping.classes - 1).bit_length())


def logit_fifo_depth(mapping: AdapterMapping) -> int:
    """Words of the FIFO of logits, at least a sample's."""
    return max(LOGIT_FIFO_DEPTH, 1 << (mapping.classes - 1).bit_length())


class HeadMemories:
    """Memories of the logit head.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Maximum number of samples in a batch.
    sum_width : int
        Bits of a gradient of B.

    Attributes
    ----------
    b, db : MemoryShape
        B of all adapters and its gradient: an entry for each class and adapter, in `classes_per_cycle` banks.
    h, dh : MemoryShape
        Hidden values of a batch and their gradients.
    bases : MemoryShape
        Base logits of a batch, a row in a word.
    labels : MemoryShape
        Labels of two batches; absent with the loss ``mse``.
    gradients : MemoryShape
        Loss gradients of a sample; absent if they fit a word of the array.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, sum_width: int) -> None:
        self.mapping = mapping
        banks, values, ranks = mapping.classes_per_cycle, batch * mapping.adapters, mapping.ranks
        entries = -(-mapping.classes // banks) * mapping.adapters
        self.b = MemoryShape("B of adapters", entries, ranks * Q4_12.width, banks, reads=2)
        self.db = MemoryShape("gradient of B", entries, ranks * sum_width, banks)
        self.h = MemoryShape("hidden values", values, ranks * Q8_16.width, reads=2)
        self.dh = MemoryShape("gradients of hidden values", values, ranks * Q4_12.width)
        self.bases = MemoryShape("base logits", batch * mapping.logit_rows, mapping.logits_per_row * Q8_16.width)
        self.labels = MemoryShape("labels", 2 * batch, 8)
        self.gradients = MemoryShape("gradients of logits", mapping.classes, Q4_12.width)

    def __iter__(self) -> Iterator[MemoryShape]:
        yield from (self.b, self.db, self.h, self.dh, self.bases)
        # synthesis chooses the kind of this memory; it cannot be given
        count = self.mapping.classes_per_cycle
        depth = (logit_fifo_depth(self.mapping) if count == 1 else half_fifo_depth(self.mapping)) - 1
        yield MemoryShape("logits", depth, Q8_16.width + 1, count, lut_rows=128)
        if self.mapping.classes > self.mapping.lanes:
            yield self.gradients
        if self.mapping.loss == "cross_entropy":
            yield self.labels
            for memory in SoftmaxSpec(classes=self.mapping.classes).memories:
                yield memory if count == 1 else replace(memory, count=count)


def backward_memories(mapping: AdapterMapping, batch: int, halves: int = 2) -> Iterator[MemoryShape]:
    """Memories of a backward engine whose batch memory holds `halves` batches."""
    yield batch_memory(mapping, batch, halves)
    yield adapter_memory(mapping)
    # the width of sums within multipliers is that of the longest sum, of the forward engine too
    terms = max(batch, mapping.forward.most_lane_terms) if halves == 2 else batch
    yield from HeadMemories(mapping, batch, accumulator_width(Q8_16, Q4_12, terms))


def order_memory(batch: int, rates: bool) -> MemoryShape:
    """Sample schedule of two batches, with a rate each if `rates`; four words in a row."""
    half = 1 << (-(-(batch + rates) // 4) - 1).bit_length()
    return MemoryShape("order of samples", 2 * half, 4 * WORD, reads=2)


def mark_memory(entries: int) -> MemoryShape:
    """Marks of cached samples."""
    return MemoryShape("marks of cached samples", max(-(-entries // WORD), 2), WORD)


def read_scale_memory(mapping: AdapterMapping) -> MemoryShape:
    """Scales of an incoming record, or of two if `loads_apart`, interleaved over `SCALES` banks."""
    rows = mapping.scale_beats + 1
    if mapping.loads_apart:
        rows = 2 << (rows - 1).bit_length()
    return MemoryShape("scales read", rows, SCALE.width, SCALES)


def written_scale_memory(mapping: AdapterMapping) -> MemoryShape:
    """Scales of an outgoing record, held until its codes are written."""
    return MemoryShape("scales written", mapping.scale_beats, 8 * BEAT)


def record_memories(mapping: AdapterMapping) -> Iterator[MemoryShape]:
    """Memories of packing and unpacking records."""
    yield read_scale_memory(mapping)
    yield written_scale_memory(mapping)
    yield from quantiser(mapping).memories


def quantiser(mapping: AdapterMapping) -> Nf4QuantSpec:
    """Quantiser of records."""
    return Nf4QuantSpec(length=max(length for _, length in mapping.blocks), values=mapping.packed_at_once)
