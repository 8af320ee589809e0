"""Normal form of a transformer: operations on rows of features, a row for each token of each sentence.

Embeddings of words are looked up before it: its inputs are rows. A network of fully connected layers is one, too.
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
    """Fully connected layer: ``x W^T + b``.

    Parameters
    ----------
    features : int
        Outputs.
    bias : bool
    """

    features: int
    bias: bool = True


@dataclass(frozen=True)
class Normalisation:
    """Layer norm, or RMS norm, with a factor for each feature.

    Parameters
    ----------
    centred : bool
        Layer norm where true.
    eps : float
        What is added to the variance.
    bias : bool
    """

    centred: bool
    eps: float
    bias: bool = True


@dataclass(frozen=True)
class SelfAttention:
    """Attention of a sentence's tokens among each other, of queries, keys and values, which are three linear layers'.

    Parameters
    ----------
    heads : int
        Of queries.
    key_heads : int
        Of keys and values; each serves ``heads / key_heads`` heads of queries.
    width : int
        Features of a head.
    causal : bool
        A token sees those before it and itself.
    rotary_base : float, optional
        Of rotary positions; none without it.
    scale : float, optional
        Factor of the scores, by default ``1 / sqrt(width)``.
    window : int, optional
        Most tokens of a sentence: in a longer one the first tokens leave a sliding window, which is not computed.
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
    """Sum with a learned row for each position.

    Parameters
    ----------
    length : int
        Positions that there are.
    """

    length: int


@dataclass(frozen=True)
class PoolTokens:
    """One row a sentence: its first or last token's, or the mean of all."""

    kind: PoolKind


@dataclass(frozen=True)
class UnitLength:
    """Division of each row by its L2 norm."""


Operation = Linear | Normalisation | SelfAttention | Activation | Gate | Residual | Positions | PoolTokens | UnitLength
Parameters = Mapping[tuple[int, str], NDArray[np.floating[Any]]]
"""Tensors by number of the operation and kind: weight, bias, factor, position."""
_READS = {SelfAttention: 3, Gate: 2, Residual: 2}


@dataclass(frozen=True)
class Transformer:
    """Operations in the order in which they run.

    Parameters
    ----------
    name : str
        Origin, for messages.
    features : int
        Of each row of the inputs.
    operations : tuple of Operation
    reads : tuple of tuple of int
        For each operation the numbers of those whose outputs it reads, -1 for the inputs.
    titles : tuple of str
        Name of each operation in the user's model.

    Raises
    ------
    UserError
        If an operation cannot read what it is given.
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
        """Features of each operation's outputs, and whether there is one row a sentence instead of one a token."""
        found: list[tuple[int, bool]] = []
        for number, (operation, reads) in enumerate(zip(self.operations, self.reads, strict=True)):
            wanted = _READS.get(type(operation), 1)
            if len(reads) != wanted or not all(-1 <= read < number for read in reads):
                raise self.error(number, f"reads {reads}, not {wanted} of what is before it")
            given = [(self.features, False) if read < 0 else found[read] for read in reads]
            found.append(self._shape(number, operation, given))
        if not found:
            raise UserError(f"{self.name} has no operations")
        return tuple(found)

    def _shape(self, number: int, operation: Operation, given: list[tuple[int, bool]]) -> tuple[int, bool]:
        """Shape of one operation's outputs."""
        (features, pooled), *others = given
        if isinstance(operation, Gate | Residual) and others != given[:1]:
            raise self.error(number, f"reads values of {features} and {others[0][0]} features, or of other rows")
        if isinstance(operation, SelfAttention | Positions | PoolTokens) and pooled:
            raise self.error(number, "needs a row for each token, and reads one a sentence")
        if isinstance(operation, SelfAttention):
            if operation.key_heads < 1 or operation.heads % operation.key_heads:
                raise self.error(number, f"has {operation.heads} heads for {operation.key_heads} of keys and values")
            widths = (operation.heads, operation.key_heads, operation.key_heads)
            expected = [(count * operation.width, False) for count in widths]
            if given != expected:
                raise self.error(number, f"has {widths} heads of {operation.width} features, not {given}")
            return expected[0]
        if isinstance(operation, Linear):
            return operation.features, pooled
        return features, pooled or isinstance(operation, PoolTokens)

    def _read_behind(self, cut: int) -> list[int]:
        """List the operations before a cut whose outputs are read behind it; -1: the inputs."""
        return sorted({one for reads in self.reads[cut:] for one in reads if one < cut})

    def crossing(self, cut: int) -> int:
        """Number of the operation whose outputs are all that those from `cut` on read of what is before.

        Raises
        ------
        UserError
            If there is no such operation to cut at, or they read more than one's outputs.
        """
        if not 0 < cut < len(self.operations):
            raise UserError(f"cut = {cut}: {self.name} of {len(self.operations)} operations is cut at 1 or above")
        read = self._read_behind(cut)
        if len(read) > 1 or read[0] < 0:
            names = " and ".join("its inputs" if one < 0 else self.titles[one] for one in read)
            both = "both" if len(read) == 2 else "all" if len(read) > 2 else "still"
            text = f"is no place for a cut ({cut}): behind it {names} are {both} read, and one may pass"
            near = [*[one for one in self.cuts if one < cut][-1:], *[one for one in self.cuts if one > cut][:1]]
            raise self.error(cut, f"{text}; cut at {' or '.join(map(str, near))}" if near else text)
        return read[0]

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """Operations before which it can be cut, see `crossing`."""
        reads = ((cut, self._read_behind(cut)) for cut in range(1, len(self.operations)))
        return tuple(cut for cut, read in reads if len(read) == 1 and read[0] >= 0)

    def error(self, number: int, reason: str) -> UserError:
        """Make the error of an operation."""
        return UserError(f"{self.name}: {self.titles[number]} {reason}")

    def inputs(self, number: int) -> int:
        """Features that an operation reads."""
        read = self.reads[number][0]
        return self.features if read < 0 else self.shapes[read][0]

    @cached_property
    def parameter_shapes(self) -> dict[tuple[int, str], tuple[int, ...]]:
        """Shapes of all tensors by number of the operation and kind."""
        found: dict[tuple[int, str], tuple[int, ...]] = {}
        for number, operation in enumerate(self.operations):
            inputs = self.inputs(number)
            if isinstance(operation, Linear):
                found[number, "weight"] = operation.features, inputs
                if operation.bias:
                    found[number, "bias"] = (operation.features,)
            elif isinstance(operation, Normalisation):
                found[number, "factor"] = (inputs,)
                if operation.bias:
                    found[number, "bias"] = (inputs,)
            elif isinstance(operation, Positions):
                found[number, "position"] = operation.length, inputs
        return found

    @cached_property
    def kinds(self) -> tuple[tuple[str, ...], ...]:
        """Kinds of each operation's tensors."""
        names = self.parameter_shapes
        return tuple(tuple(kind for of, kind in names if of == number) for number in range(len(self.operations)))

    def check(self, parameters: Parameters) -> None:
        """Refuse tensors that are not those of this network, or not finite.

        Raises
        ------
        UserError
            With the first that is wrong.
        """
        if extra := set(parameters) - set(self.parameter_shapes):
            raise UserError(f"{self.name} has no tensor {min(extra)}")
        for (number, kind), shape in self.parameter_shapes.items():
            given = parameters.get((number, kind))
            if given is None or given.shape != shape:
                raise self.error(number, f"has no {kind} of {shape}")
            if not np.isfinite(given).all():
                raise self.error(number, f"has a {kind} with NaN or infinity")

    @cached_property
    def most_tokens(self) -> int | None:
        """Tokens of the longest sentence, by positions and windows; None for any."""
        positions = [one.length for one in self.operations if isinstance(one, Positions)]
        windows = [one.window for one in self.operations if isinstance(one, SelfAttention) and one.window is not None]
        return min(positions + windows, default=None)

    def check_lengths(self, lengths: tuple[int, ...]) -> None:
        """Refuse sentences without a token, and such that are longer than the positions or a window.

        Raises
        ------
        UserError
            If a length is out of range.
        """
        most = self.most_tokens
        for length in lengths:
            if length < 1 or (most is not None and length > most):
                bound = f"1 to {most} tokens" if most else "at least one token"
                raise UserError(f"{self.name} takes sentences of {bound}, not of {length}")
