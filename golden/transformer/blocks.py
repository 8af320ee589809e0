"""Normal form of a transformer: operations on rows of features, a row for each token of each sentence.

Embeddings are looked up before the network: its inputs are rows. Fully connected networks have this form, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

ActivationKind = Literal["gelu", "gelu-tanh", "relu", "relu-squared", "silu"]
PoolKind = Literal["first", "last", "mean"]


@dataclass(frozen=True)
class Linear:
    """Fully connected layer, ``x W^T + b``, with `features` outputs."""

    features: int
    bias: bool = True


@dataclass(frozen=True)
class Normalisation:
    """Layer norm if `centred`, else RMS norm, with a factor for each feature; `eps` is added to the variance."""

    centred: bool
    eps: float
    bias: bool = True


@dataclass(frozen=True)
class SelfAttention:
    """Attention among a sentence's tokens; queries, keys and values are outputs of three linear layers.

    Parameters
    ----------
    heads : int
        Heads of queries.
    key_heads : int
        Heads of keys and values; each serves ``heads / key_heads`` heads of queries.
    width : int
        Features of a head.
    causal : bool
        If true, a token sees itself and earlier tokens only.
    rotary_base : float, optional
        Base of rotary positions, by default none.
    scale : float, optional
        Factor of the scores, by default ``1 / sqrt(width)``.
    window : int, optional
        Largest number of tokens of a sentence: longer ones would need a sliding window, which is not computed.
    """

    heads: int
    key_heads: int
    width: int
    causal: bool = False
    rotary_base: float | None = None
    scale: float | None = None
    window: int | None = None


@dataclass(frozen=True)
class Activation:
    """Function of each value."""

    kind: ActivationKind


@dataclass(frozen=True)
class Gate:
    """Product of two values of equal shape."""


@dataclass(frozen=True)
class Residual:
    """Sum of two values of equal shape."""


@dataclass(frozen=True)
class Positions:
    """Sum with a learned row for each of `length` positions."""

    length: int


@dataclass(frozen=True)
class PoolTokens:
    """One row per sentence: the first or last token's, or the mean of all."""

    kind: PoolKind


@dataclass(frozen=True)
class UnitLength:
    """Division of each row by the row's L2 norm."""


Operation = Linear | Normalisation | SelfAttention | Activation | Gate | Residual | Positions | PoolTokens | UnitLength
Parameters = Mapping[tuple[int, str], NDArray[np.floating[Any]]]
"""Tensors by operation and kind: weight, bias, factor, position."""
_READS = {SelfAttention: 3, Gate: 2, Residual: 2}


@dataclass(frozen=True)
class Transformer:
    """Operations in order of execution.

    Raises `UserError` if the shape of an operation's inputs is wrong.

    Parameters
    ----------
    name : str
        Origin, for messages.
    features : int
        Features of an input row.
    reads : tuple of tuple of int
        Operations that each operation reads, -1 for the inputs.
    titles : tuple of str
        Name of each operation in the user's model.
    """

    name: str
    features: int
    operations: tuple[Operation, ...]
    reads: tuple[tuple[int, ...], ...]
    titles: tuple[str, ...]

    def __post_init__(self) -> None:
        _ = self.shapes

    @cached_property
    def shapes(self) -> tuple[tuple[int, bool], ...]:
        """Features of each operation's outputs; true for a row per sentence, false for a row per token."""
        shapes: list[tuple[int, bool]] = []
        for number, (operation, reads) in enumerate(zip(self.operations, self.reads, strict=True)):
            wanted = _READS.get(type(operation), 1)
            if len(reads) != wanted or not all(-1 <= read < number for read in reads):
                raise self.error(number, f"reads {reads}, not {wanted} of what is before it")
            inputs = [(self.features, False) if read < 0 else shapes[read] for read in reads]
            shapes.append(self._shape(number, operation, inputs))
        if not shapes:
            raise UserError(f"{self.name} has no operations")
        return tuple(shapes)

    def _shape(self, number: int, operation: Operation, inputs: list[tuple[int, bool]]) -> tuple[int, bool]:
        (features, pooled), *others = inputs
        if isinstance(operation, Gate | Residual) and others != inputs[:1]:
            raise self.error(number, f"reads values of {features} and {others[0][0]} features, or of other rows")
        if isinstance(operation, SelfAttention | Positions | PoolTokens) and pooled:
            raise self.error(number, "needs a row for each token, and reads one a sentence")
        if isinstance(operation, SelfAttention):
            if operation.key_heads < 1 or operation.heads % operation.key_heads:
                raise self.error(number, f"has {operation.heads} heads for {operation.key_heads} of keys and values")
            widths = (operation.heads, operation.key_heads, operation.key_heads)
            expected = [(count * operation.width, False) for count in widths]
            if inputs != expected:
                raise self.error(number, f"has {widths} heads of {operation.width} features, not {inputs}")
            return expected[0]
        if isinstance(operation, Linear):
            return operation.features, pooled
        return features, pooled or isinstance(operation, PoolTokens)

    def _read_behind(self, cut: int) -> list[int]:
        return sorted({read for reads in self.reads[cut:] for read in reads if read < cut})

    def crossing(self, cut: int) -> int:
        """The only operation before `cut` with readers at or after it.

        Raises `UserError` if `cut` is out of range, or several operations have readers after the cut.
        """
        if not 0 < cut < len(self.operations):
            raise UserError(f"cut = {cut}: {self.name} of {len(self.operations)} operations is cut at 1 or above")
        read = self._read_behind(cut)
        if len(read) > 1 or read[0] < 0:
            names = " and ".join("its inputs" if op < 0 else self.titles[op] for op in read)
            both = "both" if len(read) == 2 else "all" if len(read) > 2 else "still"
            text = f"is no place for a cut ({cut}): behind it {names} are {both} read, and one may pass"
            near = [*[op for op in self.cuts if op < cut][-1:], *[op for op in self.cuts if op > cut][:1]]
            raise self.error(cut, f"{text}; cut at {' or '.join(map(str, near))}" if near else text)
        return read[0]

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """Operations with a valid cut before them, see `crossing`."""
        reads = ((cut, self._read_behind(cut)) for cut in range(1, len(self.operations)))
        return tuple(cut for cut, read in reads if len(read) == 1 and read[0] >= 0)

    def error(self, number: int, reason: str) -> UserError:
        return UserError(f"{self.name}: {self.titles[number]} {reason}")

    def inputs(self, number: int) -> int:
        read = self.reads[number][0]
        return self.features if read < 0 else self.shapes[read][0]

    @cached_property
    def parameter_shapes(self) -> dict[tuple[int, str], tuple[int, ...]]:
        """Shapes of all tensors, by operation and kind."""
        shapes: dict[tuple[int, str], tuple[int, ...]] = {}
        for number, operation in enumerate(self.operations):
            inputs = self.inputs(number)
            if isinstance(operation, Linear):
                shapes[number, "weight"] = operation.features, inputs
                if operation.bias:
                    shapes[number, "bias"] = (operation.features,)
            elif isinstance(operation, Normalisation):
                shapes[number, "factor"] = (inputs,)
                if operation.bias:
                    shapes[number, "bias"] = (inputs,)
            elif isinstance(operation, Positions):
                shapes[number, "position"] = operation.length, inputs
        return shapes

    @cached_property
    def kinds(self) -> tuple[tuple[str, ...], ...]:
        names = self.parameter_shapes
        return tuple(tuple(kind for of, kind in names if of == number) for number in range(len(self.operations)))

    def check(self, parameters: Parameters) -> None:
        """Refuse tensors with wrong names, shapes or values.

        Raises `UserError` for the first tensor with a wrong name or shape, NaN or infinity.
        """
        if extra := set(parameters) - set(self.parameter_shapes):
            raise UserError(f"{self.name} has no tensor {min(extra)}")
        for (number, kind), shape in self.parameter_shapes.items():
            tensor = parameters.get((number, kind))
            if tensor is None or tensor.shape != shape:
                raise self.error(number, f"has no {kind} of {shape}")
            if not np.isfinite(tensor).all():
                raise self.error(number, f"has a {kind} with NaN or infinity")

    @cached_property
    def most_tokens(self) -> int | None:
        """Largest number of tokens of a sentence, by positions and windows; None without a limit."""
        positions = [op.length for op in self.operations if isinstance(op, Positions)]
        windows = [op.window for op in self.operations if isinstance(op, SelfAttention) and op.window is not None]
        return min(positions + windows, default=None)

    def check_lengths(self, lengths: tuple[int, ...]) -> None:
        """Refuse empty sentences, and sentences longer than the positions or a window.

        Raises `UserError` if a length is out of range.
        """
        most = self.most_tokens
        for length in lengths:
            if length < 1 or (most is not None and length > most):
                bound = f"1 to {most} tokens" if most else "at least one token"
                raise UserError(f"{self.name} takes sentences of {bound}, not of {length}")
