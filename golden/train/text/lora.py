"""LoRA on the queries and values of a transformer, in float: the first-order baseline of a federation on text."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import UserError
from ...transformer.blocks import SelfAttention, Transformer

RANK = 4
"""Rank of the adapters by default."""
_QUERIES_AND_VALUES = {"query", "value", "q_proj", "v_proj", "q_lin", "v_lin"}
"""Names of those layers in the models of the library."""


class LoraLinear(nn.Module):
    """Linear layer with an adapter beside it: ``y = layer(x) + B A x`` (Hu et al., 2021, with alpha = rank).

    Parameters
    ----------
    layer : nn.Linear
        Frozen.
    rank : int
    generator : torch.Generator
        Draws A; B begins at 0, and with it the adapter.
    """

    def __init__(self, layer: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layer = layer
        self.a = nn.Parameter(torch.randn(rank, layer.in_features, generator=generator) / layer.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Output of the layer plus that of the adapter."""
        y: Tensor = self.layer(x)
        return y + functional.linear(functional.linear(x, self.a), self.b)


def add_lora(module: nn.Module, rank: int = RANK, seed: int = 0) -> None:
    """Freeze a model of the library, and add adapters to all its queries and values, in place.

    Raises
    ------
    UserError
        If it has none.
    """
    module.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    found = [name for name, one in module.named_modules() if _adapted(name, one)]
    if not found:
        raise UserError(f"LoRA needs queries and values by name ({', '.join(sorted(_QUERIES_AND_VALUES))}): none found")
    for name in found:
        parent, _, own = name.rpartition(".")
        layer = module.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        setattr(module.get_submodule(parent), own, LoraLinear(layer, rank, generator))


def _adapted(name: str, module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and name.rpartition(".")[2] in _QUERIES_AND_VALUES


def lora_parameters(network: Transformer, rank: int = RANK) -> int:
    """Number of the parameters of adapters on all queries and values of a network."""
    count = 0
    for operation, reads in zip(network.operations, network.reads, strict=True):
        if isinstance(operation, SelfAttention):
            for read in (reads[0], reads[2]):
                count += rank * (network.inputs(read) + network.shapes[read][0])
    return count
