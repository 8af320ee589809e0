"""A module's linear layers in two parts each, in place, and back."""

from __future__ import annotations

import torch
from torch import nn

from ...errors import UserError
from .linear import SparseLinear
from .masks import Mask, linears


def sparsify(
    module: nn.Module, mask: Mask, *, dtype: torch.dtype = torch.float16, unpacked: bool = False
) -> list[nn.Parameter]:
    """Replace the layers that a mask names by `SparseLinear`, and freeze everything else.

    Parameters
    ----------
    module : nn.Module
        Changed in place, layer by layer, so that it need not fit twice. A layer that stands in several places is
        replaced in all of them.
    mask : Mask
    dtype, unpacked
        Of `SparseLinear`.

    Returns
    -------
    list of Parameter
        The sensitive weights, in the order of the module's layers: what goes to the optimiser.

    Raises
    ------
    UserError
        If the mask names no layer, or one that is none of `masks.linears` or the module itself; nothing is changed
        then. And as `SparseLinear` does.
    """
    layers = linears(module)
    if not mask:
        raise UserError("the mask names no layer: there would be nothing to tune")
    for name in mask:
        if name not in layers:
            raise UserError(f"{name!r} is no linear layer with a weight of its own here: take the mask of this module")
        if not name:
            raise UserError("the module is a linear layer itself: take SparseLinear, or put it into an nn.Sequential")
    module.requires_grad_(False)
    tuned = []
    for name in [name for name in layers if name in mask]:
        # the last that holds it, so that its memory is free before the next one's turn
        layer = layers.pop(name)
        sparse = SparseLinear(layer, mask[name], dtype=dtype, unpacked=unpacked)
        _replace(module, layer, sparse.train(layer.training))
        tuned.append(sparse.values)
    return tuned


def densify(module: nn.Module) -> None:
    """Put an `nn.Linear` in float32 in the place of every `SparseLinear`; nothing is frozen or released."""
    for layer in list(module.modules()):
        if isinstance(layer, SparseLinear):
            linear = layer.to_linear().requires_grad_(False)
            _replace(module, layer, linear.train(layer.training))


def _replace(module: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in module.modules():
        # `named_children` would name it once
        for name in [name for name, child in parent._modules.items() if child is old]:
            setattr(parent, name, new)
