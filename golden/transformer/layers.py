"""Layers of a transformer: where each begins, and the products of its operations."""

from __future__ import annotations

from .blocks import Linear, Normalisation, SelfAttention, Transformer


def layer_starts(network: Transformer) -> tuple[int, ...]:
    """Number of the first operation of each layer: a layer has one attention.

    It begins with the first of what makes queries, keys and values, or with a norm that only those read. In a network
    without attention each fully connected layer is one.
    """
    if not any(isinstance(one, SelfAttention) for one in network.operations):
        return tuple(number for number, one in enumerate(network.operations) if isinstance(one, Linear))
    found = []
    for number, operation in enumerate(network.operations):
        if isinstance(operation, SelfAttention):
            start = min(network.reads[number])
            before = network.reads[start][0] if start >= 0 else -1
            readers = {at for at, reads in enumerate(network.reads) if before in reads}
            if before >= 0 and isinstance(network.operations[before], Normalisation):
                start = before if readers <= set(network.reads[number]) else start
            found.append(start)
    return tuple(found)


def products(network: Transformer, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Count the multiplications of matrices of each operation, for sentences of so many tokens."""
    found = []
    for number, operation in enumerate(network.operations):
        rows = len(lengths) if network.shapes[number][1] else sum(lengths)
        match operation:
            case Linear():
                found.append(rows * operation.features * network.inputs(number))
            case SelfAttention():
                pairs = sum(one * (one + 1) // 2 if operation.causal else one * one for one in lengths)
                found.append(2 * pairs * operation.heads * operation.width)
            case _:
                found.append(0)
    return tuple(found)
