"""Graph of a user's transformer: each tensor as an index into the output rows of an operation.

A tensor that depends on the samples is a view of an operation's outputs: an integer array holds the number of the
output at each element. PyTorch itself applies views to this array. An operator is accepted only with the right numbers
for every sample, token and feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

import torch
from torch import Tensor

from ...errors import UserError
from ...fixed import Integers
from ...models.layers import Shape
from ...transformer.blocks import (
    Linear,
    Operation,
    PoolKind,
    PoolTokens,
)
from ...transformer.builder import INPUTS, TransformerBuilder
from ..graph import Place

BATCH = 2
"""Samples of an export: more than one, to detect operators that mix samples."""


@dataclass(frozen=True, eq=False)
class RowTensor:
    """Tensor whose elements are an operation's outputs.

    Parameters
    ----------
    number : int
        Operation; `INPUTS` for the samples.
    index : Tensor of int64
        Number of the output at each element, counted over samples, tokens and features.
    factor : float
        Common factor of all elements.
    """

    number: int
    index: Tensor
    factor: float = 1.0


@dataclass
class Node:
    """Operation of the graph.

    Parameters
    ----------
    tokens : int
        Rows of a sample.
    pooled : bool
        True for a single row per sample.
    names : dict of str to str
        Names in the user's model for the tensors.
    """

    operation: Operation
    reads: tuple[int, ...]
    place: Place
    tokens: int
    features: int
    pooled: bool
    tensors: dict[str, Tensor] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FoundTransformer:
    """Result of an importer: a builder, open for a task's pooling and head.

    Parameters
    ----------
    last : int
        Operation of the outputs.
    pooled : bool
        True for a single output row per sample.
    places : array of int, (tokens, features)
        See `SampleTransformer`.
    left_to_host : str
        Operation after the outputs: a softmax, or empty.
    """

    builder: TransformerBuilder
    last: int
    pooled: bool
    input_shape: Shape
    places: Integers
    tensor_names: dict[tuple[int, str], str]
    left_to_host: str = ""


class RowGraph:
    """Operations of a user's transformer in the order of execution.

    Parameters
    ----------
    name : str
        Origin of the model for messages.
    input_shape : tuple of int
        Shape of a sample.
    batch : int
        Number of samples in each tensor.
    """

    def __init__(self, name: str, input_shape: Shape, batch: int = BATCH) -> None:
        self.name, self.input_shape, self.batch = name, input_shape, batch
        self.nodes: list[Node] = []
        self.places: Tensor | None = None
        self._made: dict[tuple[object, ...], int] = {}

    def sample(self) -> RowTensor:
        """Tensor of the samples."""
        return RowTensor(INPUTS, torch.arange(self.batch * prod(self.input_shape)).view(self.batch, *self.input_shape))

    def size(self, number: int) -> tuple[int, int]:
        """Tokens and features of an operation's outputs."""
        if number == INPUTS:
            assert self.places is not None, "what reads the samples has settled them"
            return len(self.places), self.places.shape[1]
        node = self.nodes[number]
        return node.tokens, node.features

    def add(
        self,
        place: Place,
        operation: Operation,
        *reads: int,
        features: int = 0,
        pooled: bool | None = None,
        tensors: Mapping[str, Tensor | None] = {},
        names: Mapping[str, str] = {},
    ) -> int:
        """Number of a new operation, with the tokens and, by default, features of the first input.

        Raises
        ------
        UserError
            If a tensor is not finite.
        """
        tokens, before = self.size(reads[0])
        present = {kind: tensor.detach().cpu() for kind, tensor in tensors.items() if tensor is not None}
        for kind, tensor in present.items():
            if not torch.isfinite(tensor).all():
                raise UserError(f"{self.name}: {names.get(kind) or f'{place.title}.{kind}'} has NaN or infinity")
        was_pooled = reads[0] != INPUTS and self.nodes[reads[0]].pooled
        pooled = was_pooled if pooled is None else pooled
        known_names = {kind: name for kind, name in names.items() if name}
        node = Node(operation, reads, place, 1 if pooled else tokens, features or before, pooled, present, known_names)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def once(self, key: tuple[object, ...], place: Place, operation: Operation, *reads: int, pooled: bool) -> int:
        """Add an operation unless the key is known."""
        if key not in self._made:
            self._made[key] = self.add(place, operation, *reads, pooled=pooled)
        return self._made[key]

    def instead(self, node: Node, operation: Operation, tensors: dict[str, Tensor], names: dict[str, str]) -> int:
        """Add a replacement of an operation, which is dropped if unread."""
        return self.add(node.place, operation, *node.reads, features=node.features, tensors=tensors, names=names)

    def _unfactored(self, place: Place, rows: RowTensor) -> RowTensor:
        if rows.factor == 1:
            return rows
        node = self.nodes[rows.number] if rows.number >= 0 else None
        if node is None or not isinstance(node.operation, Linear):
            raise place.error(f"reads a product with {rows.factor:g}, which only scores and linear layers take")
        tensors = {kind: tensor * rows.factor for kind, tensor in node.tensors.items()}
        return RowTensor(self.instead(node, node.operation, tensors, {}), rows.index)

    def settled(self, place: Place, rows: RowTensor) -> RowTensor:
        """The same tensor as all outputs of an operation, in any order; the operation is added if necessary.

        A fixed token of each sample is a pooling. Some features of a linear layer are a smaller layer.

        Raises
        ------
        UserError
            If the elements are any other subset of outputs.
        """
        rows = self._unfactored(place, rows)
        if rows.number == INPUTS:
            rows = self._of_samples(place, rows)
        tokens, features = self.size(rows.number)
        count = self.batch * tokens * features
        flat = rows.index.reshape(-1)
        if not flat.numel():
            raise place.error(f"reads none of a sample's {tokens} x {features} values")
        if flat.numel() == count and (torch.bincount(flat, minlength=count) == 1).all():
            return rows
        token, feature = flat // features % tokens, flat % features
        batch = flat // (tokens * features)
        if tokens > 1 and (token == token[0]).all():
            kinds: dict[int, PoolKind] = {0: "first", tokens - 1: "last"}
            if int(token[0]) not in kinds:
                raise place.error(f"reads token {int(token[0])} of {tokens}: only the first, the last or all are read")
            kind = kinds[int(token[0])]
            number = self.once((rows.number, kind), place, PoolTokens(kind), rows.number, pooled=True)
            return self.settled(place, RowTensor(number, (batch * features + feature).view(rows.index.shape)))
        chosen = torch.unique(feature)
        if len(chosen) < features and flat.numel() == self.batch * tokens * len(chosen):
            number = self.gathered(place, rows.number, chosen)
            index = (flat // features) * len(chosen) + torch.searchsorted(chosen, feature)
            return self.settled(place, RowTensor(number, index.view(rows.index.shape)))
        raise place.error(
            f"reads {flat.numel() // self.batch} of a sample's {tokens} x {features} values, or some twice"
        )

    def gathered(self, place: Place, number: int, chosen: Tensor) -> int:
        """Linear layer with only the chosen features of another, in this order."""
        if number == INPUTS:
            raise place.error("reads some features of the samples, or in another order")
        node = self.nodes[number]
        if torch.equal(chosen, torch.arange(node.features)):
            return number
        if not isinstance(node.operation, Linear):
            raise place.error(f"reads some features of {node.place.title}, or in another order, and no linear layer's")
        key = (number, *chosen.tolist())
        if key not in self._made:
            first, last = int(chosen[0]), int(chosen[-1])
            whole = torch.equal(chosen, torch.arange(first, first + len(chosen)))
            part = f"[{first}:{last + 1}]"
            names = {kind: name + part for kind, name in node.names.items() if whole and "[" not in name}
            tensors = {kind: tensor[chosen] for kind, tensor in node.tensors.items()}
            title = replace(node.place, title=f"{node.place.title}{part if whole else f'[{first}, ...]'}")
            operation = Linear(len(chosen), node.operation.bias)
            self._made[key] = self.add(
                title, operation, *node.reads, features=len(chosen), tensors=tensors, names=names
            )
        return self._made[key]

    def _of_samples(self, place: Place, rows: RowTensor) -> RowTensor:
        """Samples as rows of tokens; in the first reader, their last axis is the features."""
        size = prod(self.input_shape)
        batch, value = rows.index // size, rows.index % size
        if self.places is None:
            features = rows.index.shape[-1]
            flat = rows.index.reshape(-1, features)
            by_sample = [flat[(flat[:, 0] // size) == number] for number in range(self.batch)]
            if (
                any(not torch.equal(values, by_sample[0] + number * size) for number, values in enumerate(by_sample))
                or (batch != batch[..., :1]).any()
            ):
                raise place.error("mixes the samples of a batch")
            self.places = by_sample[0]
        tokens, features = self.places.shape
        inverse = torch.full((size + 1,), -1)
        inverse[self.places.reshape(-1)] = torch.arange(tokens * features)
        used = self.places[self.places >= 0]
        index = inverse[:size][value]
        if len(torch.unique(used)) != len(used) or (index < 0).any():
            raise place.error("reads the samples in another form than what reads them first")
        return RowTensor(INPUTS, batch * tokens * features + index)

    def over_features(self, place: Place, rows: RowTensor) -> tuple[Tensor, Tensor]:
        """Number of each row along the last axis, and the complete features."""
        _, features = self.size(rows.number)
        flat = rows.index.reshape(-1, rows.index.shape[-1])
        row, feature = flat // features, flat % features
        if flat.shape[-1] != features or (row != row[:, :1]).any() or (feature != feature[:1]).any():
            raise place.error(f"is over {flat.shape[-1]} values, which are not the {features} features of a token")
        return row[:, 0], feature[0]

    def is_pooled(self, number: int) -> bool:
        return number != INPUTS and self.nodes[number].pooled

    def finish(self, outputs: RowTensor, state: Mapping[str, Tensor], host: str = "") -> FoundTransformer:
        """Normal form without unread operations.

        Parameters
        ----------
        state : mapping of str to Tensor
            The user's tensors; equal tensors of the normal form get their names.
        host : str
            Operation after the outputs, on the host.

        Raises
        ------
        UserError
            If the outputs are not in the order of the last operation, or the operations do not fit.
        """
        place = Place("output", f"{self.name}: its output")
        rows = self.settled(place, outputs)
        if rows.number == INPUTS:
            raise UserError(f"{self.name} has no operations")
        if not torch.equal(rows.index.reshape(-1), torch.arange(rows.index.numel())):
            raise place.error("is in another order than that of samples, tokens and features")
        node = self.nodes[rows.number]
        if host and not node.pooled and node.tokens > 1:
            raise place.error(f"is the {host} of {node.tokens} rows: the host takes that of one")
        last = rows.number
        if not node.pooled and node.tokens == 1:
            last = self.add(place, PoolTokens("first"), last, pooled=True)
        read = {last}
        for number in range(last, -1, -1):
            if number in read:
                read.update(self.nodes[number].reads)
        assert self.places is not None, "the samples were read"
        builder = TransformerBuilder(self.name, self.places.shape[1])
        new_number = {INPUTS: INPUTS}
        names: dict[tuple[int, str], str] = {}
        for number in range(last + 1):
            if number not in read:
                continue
            node = self.nodes[number]
            if not node.pooled and node.tokens != len(self.places):
                raise node.place.error("reads the samples without the tokens that are joined to them")
            tensors = {kind: tensor.float().numpy().copy() for kind, tensor in node.tensors.items()}
            new_number[number] = builder.add(
                node.place.title, node.operation, *(new_number[source] for source in node.reads), **tensors
            )
            named = node.names.items()
            names |= {(new_number[number], kind): name for kind, name in named if _is(node.tensors[kind], name, state)}
        pooled = self.nodes[last].pooled
        return FoundTransformer(builder, new_number[last], pooled, self.input_shape, self.places.numpy(), names, host)


def _is(tensor: Tensor, name: str, state: Mapping[str, Tensor]) -> bool:
    """True if a tensor has the elements of a named tensor, or of the part in the name."""
    whole, _, part = name.partition("[")
    if whole not in state:
        return False
    first, _, last = part.rstrip("]").partition(":")
    expected = state[whole][int(first) : int(last)] if part else state[whole]
    return expected.numel() == tensor.numel() and torch.equal(expected.reshape(-1).cpu(), tensor.reshape(-1))
