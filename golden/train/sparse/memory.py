"""Memory of a model before and after sparsification: from shapes, and measured on the tensors of a module.

The paper's 7B figures, 13.5 and 3.4 "GiB" (section 3.5), are its 6.738 billion parameters at 2 and at 1/2 byte in units
of 10**9. `rows` shows both, and the omitted parts: scales, sensitive weights and their indices, and parameters outside
linear layers, which stay in 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from torch import nn

from .linear import BLOCK, BLOCK_BYTES, SparseLinear
from .masks import count_of, linears

INDEX_BYTES = 4
_SCALE_BYTES = BLOCK_BYTES - BLOCK // 2


@dataclass(frozen=True)
class Inventory:
    """Number of weights of each linear layer by name, and of all other parameters."""

    layers: Mapping[str, int]
    others: int

    @classmethod
    def of(cls, module: nn.Module) -> Inventory:
        """Parameters of a dense module, which may be on the device "meta"."""
        layers = linears(module)
        weights = {id(layer.weight) for layer in layers.values()}
        others = sum(parameter.numel() for parameter in module.parameters() if id(parameter) not in weights)
        return cls({name: layer.weight.numel() for name, layer in layers.items()}, others)

    @property
    def parameters(self) -> int:
        return sum(self.layers.values()) + self.others


@dataclass(frozen=True)
class Footprint:
    """Bytes of the parts of a sparse model."""

    codes: int
    scales: int
    values: int
    """Sensitive weights."""
    indices: int
    others: int
    """Parameters outside sparse layers, and biases."""
    dense: int = 0
    """Dequantised weights of unpacked layers."""

    @property
    def total(self) -> int:
        return sum(getattr(self, part.name) for part in fields(self))


def footprint(
    inventory: Inventory, fraction: float = 0.001, *, value_bytes: int = 2, other_bytes: int = 2
) -> Footprint:
    """Memory of a model with all linear layers sparse.

    Parameters
    ----------
    fraction : float
        Fraction of sensitive weights in each layer, rounded as in `masks.count_of`.
    value_bytes : int
        Bytes of a sensitive weight: 2 when stored or sent, 4 during tuning.
    other_bytes : int
        Bytes of a parameter outside linear layers.

    Raises
    ------
    UserError
        If the fraction is out of range.
    """
    blocks = sum(-(-count // BLOCK) for count in inventory.layers.values())
    tuned = sum(count_of(count, fraction) for count in inventory.layers.values())
    return Footprint(
        codes=blocks * BLOCK // 2,
        scales=blocks * _SCALE_BYTES,
        values=tuned * value_bytes,
        indices=tuned * INDEX_BYTES,
        others=inventory.others * other_bytes,
    )


def measured(module: nn.Module) -> Footprint:
    """Bytes of all parameters and buffers of a module; a shared tensor counts once."""
    counts = dict.fromkeys((field.name for field in fields(Footprint)), 0)
    seen: set[int] = set()
    for layer in module.modules():
        tensors = [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]
        for name, tensor in tensors:
            if id(tensor) not in seen:
                part = name if isinstance(layer, SparseLinear) and name in counts else "others"
                counts[part] += tensor.numel() * tensor.element_size()
                seen.add(id(tensor))
    return Footprint(**counts)


def llama2_7b() -> Inventory:
    """Inventory of Llama2-7B: 32 layers of width 4,096 and 11,008, vocabulary 32,000, separate output layer."""
    width, inner, words, depth = 4096, 11008, 32000, 32
    shapes = dict.fromkeys(("q", "k", "v", "o"), width * width) | dict.fromkeys(("gate", "up", "down"), width * inner)
    layers = {f"{number}.{name}": count for number in range(depth) for name, count in shapes.items()}
    return Inventory(layers | {"head": words * width}, words * width + (2 * depth + 1) * width)


def rows(inventory: Inventory | None = None, fraction: float = 0.001) -> list[dict[str, str | float]]:
    """Table of a model's memory by parts: `what`, `bytes`, `GB` (10**9), `GiB` (2**30) and `paper`.

    The default is Llama2-7B with the paper's figures; `fraction` is the share of sensitive weights in each layer.
    """
    paper = ("13.5 GiB", "3.4 GiB") if inventory is None else ("", "")
    inventory = inventory or llama2_7b()
    sent, tuned = (footprint(inventory, fraction, value_bytes=value_bytes) for value_bytes in (2, 4))
    table = [
        ("every parameter in 16 bits", 2 * inventory.parameters, paper[0]),
        ("every parameter in 4 bits", -(-inventory.parameters // 2), paper[1]),
        ("codes of linear layers", sent.codes, ""),
        ("their scales, float32", sent.scales, ""),
        ("sensitive weights, 16 bits", sent.values, ""),
        ("their indices, 32 bits", sent.indices, ""),
        ("the rest of the model, 16 bits", sent.others, ""),
        ("all parts, as they are sent", sent.total, ""),
        ("all parts, while they are tuned", tuned.total, ""),
    ]
    return [
        {"what": what, "bytes": count, "GB": round(count / 1e9, 3), "GiB": round(count / 2**30, 3), "paper": printed}
        for what, count, printed in table
    ]
