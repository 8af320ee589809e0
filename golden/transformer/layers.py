"""Layers of a transformer, and products of its operations."""

from __future__ import annotations

from .blocks import Linear, Normalisation, SelfAttention, Transformer


def layer_starts(network: Transformer) -> tuple[int, ...]:
    """First operation of each layer; a layer has a single attention.

    A layer begins at the first projection of queries, keys and values, or at a norm that only the projections read.
    Without attention each fully connected layer is a layer.
    """
    if not any(isinstance(layer, SelfAttention) for layer in network.operations):
        return tuple(number for number, layer in enumerate(network.operations) if isinstance(layer, Linear))
    starts = []
    for number, operation in enumerate(network.operations):
        if isinstance(operation, SelfAttention):
            start = min(network.reads[number])
            before = network.reads[start][0] if start >= 0 else -1
            readers = {reader for reader, reads in enumerate(network.reads) if before in reads}
            if before >= 0 and isinstance(network.operations[before], Normalisation):
                start = before if readers <= set(network.reads[number]) else start
            starts.append(start)
    return tuple(starts)


def products(network: Transformer, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Multiply-accumulates of each operation, for sentences of `lengths` tokens."""
    counts = []
    for number, operation in enumerate(network.operations):
        rows = len(lengths) if network.shapes[number][1] else sum(lengths)
        match operation:
            case Linear():
                counts.append(rows * operation.features * network.inputs(number))
            case SelfAttention():
                pairs = sum(length * (length + 1) // 2 if operation.causal else length * length for length in lengths)
                counts.append(2 * pairs * operation.heads * operation.width)
            case _:
                counts.append(0)
    return tuple(counts)
