"""Builder of a transformer's normal form, for all importers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import (
    Activation,
    ActivationKind,
    Gate,
    Linear,
    Normalisation,
    Operation,
    Parameters,
    PoolKind,
    PoolTokens,
    Positions,
    Residual,
    SelfAttention,
    Transformer,
    UnitLength,
)

Tensor = NDArray[np.floating[Any]]
INPUTS = -1
"""Number of the inputs as an operation."""


class TransformerBuilder:
    """Operations and tensors in order; each method adds an operation and returns its number.

    `name` is the origin for messages, `features` the features of an input row.
    """

    def __init__(self, name: str, features: int) -> None:
        self.name, self.features = name, features
        self._operations: list[Operation] = []
        self._reads: list[tuple[int, ...]] = []
        self._titles: list[str] = []
        self._tensors: dict[tuple[int, str], Tensor] = {}

    def add(self, title: str, operation: Operation, *reads: int, **tensors: Tensor | None) -> int:
        """Add an operation, named as in the user's model, with tensors; None for a missing tensor."""
        number = len(self._operations)
        self._operations.append(operation)
        self._reads.append(reads)
        self._titles.append(title)
        self._tensors |= {(number, kind): tensor for kind, tensor in tensors.items() if tensor is not None}
        return number

    def linear(self, title: str, read: int, weight: Tensor, bias: Tensor | None = None) -> int:
        """Add a fully connected layer: weight (outputs, inputs)."""
        return self.add(title, Linear(len(weight), bias is not None), read, weight=weight, bias=bias)

    def layer_norm(self, title: str, read: int, factor: Tensor, bias: Tensor | None, eps: float) -> int:
        return self.add(title, Normalisation(True, eps, bias is not None), read, factor=factor, bias=bias)

    def rms_norm(self, title: str, read: int, factor: Tensor, eps: float) -> int:
        return self.add(title, Normalisation(False, eps, False), read, factor=factor)

    def attention(self, title: str, reads: tuple[int, int, int], attention: SelfAttention) -> int:
        return self.add(title, attention, *reads)

    def activation(self, title: str, read: int, kind: ActivationKind) -> int:
        return self.add(title, Activation(kind), read)

    def gate(self, title: str, first: int, second: int) -> int:
        return self.add(title, Gate(), first, second)

    def residual(self, title: str, first: int, second: int) -> int:
        return self.add(title, Residual(), first, second)

    def positions(self, title: str, read: int, rows: Tensor) -> int:
        """Add a learned row for each position: (length, features)."""
        return self.add(title, Positions(len(rows)), read, position=rows)

    def pool(self, title: str, read: int, kind: PoolKind) -> int:
        return self.add(title, PoolTokens(kind), read)

    def unit_length(self, title: str, read: int) -> int:
        return self.add(title, UnitLength(), read)

    def finish(self) -> tuple[Transformer, Parameters]:
        """Network and tensors, checked.

        Raises `UserError` if operations do not fit each other, or a tensor does not fit its operation.
        """
        network = self.network()
        network.check(self._tensors)
        return network, self._tensors

    def network(self) -> Transformer:
        """Network without its tensors.

        Raises `UserError` if operations do not fit each other.
        """
        operations, reads, titles = tuple(self._operations), tuple(self._reads), tuple(self._titles)
        return Transformer(self.name, self.features, operations, reads, titles)
