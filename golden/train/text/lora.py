"""LoRA on the queries and values of a transformer, in float: the first-order baseline of a federation on text."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import UserError
from ...transformer.blocks import SelfAttention, Transformer

RANK = 4
"""Default rank of the adapters."""
_QUERIES_AND_VALUES = {"query", "value", "q_proj", "v_proj", "q_lin", "v_lin"}
"""Layer names of queries and values in the models of `transformers`."""


class LoraLinear(nn.Module):
    """Linear layer with a parallel adapter: ``y = layer(x) + B A x`` (Hu et al., 2021, with alpha = rank).

    The layer is frozen. `generator` draws A; B starts at 0.
    """

    def __init__(self, layer: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layer = layer
        self.a = nn.Parameter(torch.randn(rank, layer.in_features, generator=generator) / layer.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y + functional.linear(functional.linear(x, self.a), self.b)


def add_lora(module: nn.Module, rank: int = RANK, seed: int = 0) -> None:
    """Freeze a model of `transformers`, and add adapters to all queries and values, in place.

    Raises
    ------
    UserError
        If the model has no layer with a known name.
    """
    module.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    names = [name for name, child in module.named_modules() if _adapted(name, child)]
    if not names:
        raise UserError(f"LoRA needs queries and values by name ({', '.join(sorted(_QUERIES_AND_VALUES))}): none found")
    for name in names:
        parent, _, child = name.rpartition(".")
        layer = module.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        setattr(module.get_submodule(parent), child, LoraLinear(layer, rank, generator))


def _adapted(name: str, module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and name.rpartition(".")[2] in _QUERIES_AND_VALUES


def lora_parameters(network: Transformer, rank: int = RANK) -> int:
    """Number of parameters of adapters on all queries and values of a network."""
    count = 0
    for operation, reads in zip(network.operations, network.reads, strict=True):
        if isinstance(operation, SelfAttention):
            for read in (reads[0], reads[2]):
                count += rank * (network.inputs(read) + network.shapes[read][0])
    return count
