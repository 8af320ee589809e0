"""Multiply-accumulates of a transformer's forward pass."""

from __future__ import annotations

from .blocks import Linear, Normalisation, SelfAttention, Transformer


def multiply_accumulates(network: Transformer, tokens: int) -> tuple[int, ...]:
    """Multiply-accumulates of each operation for a sentence of so many tokens.

    Those of linear layers and attention, and two for each value of a norm: its square, and its factor.
    """
    found = []
    for number, (operation, (features, pooled)) in enumerate(zip(network.operations, network.shapes, strict=True)):
        if isinstance(operation, Linear):
            found.append((1 if pooled else tokens) * features * network.inputs(number))
        elif isinstance(operation, SelfAttention):
            pairs = tokens * (tokens + 1) // 2 if operation.causal else tokens**2
            found.append(2 * pairs * operation.heads * operation.width)
        elif isinstance(operation, Normalisation):
            found.append(2 * (1 if pooled else tokens) * features)
        else:
            found.append(0)
    return tuple(found)
