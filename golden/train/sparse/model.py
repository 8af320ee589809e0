"""Replacement of a module's linear layers by `SparseLinear`, in place, and back."""

from __future__ import annotations

import torch
from torch import nn

from ...errors import UserError
from .linear import SparseLinear
from .masks import Mask, linears


def sparsify(
    module: nn.Module, mask: Mask, *, dtype: torch.dtype = torch.float16, unpacked: bool = False
) -> list[nn.Parameter]:
    """Replace the layers in a mask by `SparseLinear`, and freeze all other parameters.

    Parameters
    ----------
    module : nn.Module
        Changed in place, layer by layer, so that memory for a second copy is not needed. A layer that occurs several
        times is replaced everywhere.
    mask : Mask
    dtype, unpacked
        Arguments of `SparseLinear`.

    Returns
    -------
    list of Parameter
        Sensitive weights in the order of the module's layers: the parameters for the optimiser.

    Raises
    ------
    UserError
        If the mask is empty, or has a layer that is not in `masks.linears` or is the module itself; nothing is changed
        then. Also as `SparseLinear` does.
    """
    layers = linears(module)
    if not mask:
        raise UserError("the mask has no layer: there would be nothing to tune")
    for name in mask:
        if name not in layers:
            raise UserError(f"{name!r} is not a linear layer with a weight of its own here: use a mask of this module")
        if not name:
            raise UserError("the module is a linear layer itself: use SparseLinear, or put it into an nn.Sequential")
    module.requires_grad_(False)
    tuned = []
    for name in [name for name in layers if name in mask]:
        # drop the reference, so that its memory is free before the next layer
        layer = layers.pop(name)
        sparse = SparseLinear(layer, mask[name], dtype=dtype, unpacked=unpacked)
        _replace(module, layer, sparse.train(layer.training))
        tuned.append(sparse.values)
    return tuned


def densify(module: nn.Module) -> None:
    """Replace every `SparseLinear` by an `nn.Linear` in float32 that does not require gradients."""
    for layer in list(module.modules()):
        if isinstance(layer, SparseLinear):
            linear = layer.to_linear().requires_grad_(False)
            _replace(module, layer, linear.train(layer.training))


def _replace(module: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in module.modules():
        # `named_children` lists a repeated child once
        for name in [name for name, child in parent._modules.items() if child is old]:
            setattr(parent, name, new)
