"""Weights of a trained module in the hardware's form: batch norm folded into the layer before."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...errors import UserError
from ...models.batch_norm import NormTensors, StageParameters
from ...models.module import NetworkModule, module_of
from ...models.network import Network, deployed
from .network import imported

Parameters = tuple[StageParameters, ...]
"""Weights and biases of all stages of a network."""


def described(network: Network, module: nn.Module) -> NetworkModule:
    """Module of a network's description, with the weights of a trained module and unfolded batch norm.

    `module` is from `module_of`, and then returned, or the user's.

    Raises
    ------
    UserError
        If the module does not fit the network.
    """
    if isinstance(module, NetworkModule):
        return module
    description, copied = imported(module, network.input_shape, network.name)
    _check_weights(network, [stage.weight_shape for stage in description.stages])
    return copied


def folded(network: Network, module: nn.Module) -> Parameters:
    """Weights and biases of a trained module in float64, with batch norm folded as in evaluation mode.

    `network` describes the module, which is from `module_of` or the user's.

    Raises
    ------
    UserError
        If a tensor has NaN or infinity, or the module does not fit the network.
    """
    check_finite(module, network.name)
    description = described(network, module)
    # by layer number in the module: batch norms of two layers may follow after both layers
    stages: dict[int, StageParameters] = {}
    for number, (layer, read) in enumerate(zip(description, description.reads, strict=True)):
        if isinstance(layer, nn.Conv2d | nn.Linear):
            weight = _array(layer.weight)
            bias = np.zeros(len(weight)) if layer.bias is None else _array(layer.bias)
            stages[number] = StageParameters(weight, bias)
        elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            stages[read[0]] = _norm(layer).folded(stages[read[0]], f"{network.name}, {description.titles[number]}")
    _check_weights(network, [pair.weight.shape for pair in stages.values()])
    return tuple(stages.values())


def _check_weights(network: Network, shapes: list[tuple[int, ...]]) -> None:
    expected = [stage.weight_shape for stage in network.stages]
    if shapes != expected:
        raise UserError(f"{network.name} has weights of {expected}, but the module has {shapes}")


def _norm(layer: nn.BatchNorm1d | nn.BatchNorm2d) -> NormTensors:
    mean, variance = layer.running_mean, layer.running_var
    assert mean is not None, "a description's batch norm has running statistics"
    assert variance is not None, "as above"
    weight, bias = (None if tensor is None else _array(tensor) for tensor in (layer.weight, layer.bias))
    return NormTensors(_array(mean), _array(variance), weight, bias, layer.eps)


def _array(tensor: torch.Tensor) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().cpu().to(torch.float64).numpy()).copy()


def deployed_module(network: Network, module: nn.Module) -> NetworkModule:
    """Trained module of the deployed network in float32; draws no random numbers and does not modify `module`.

    Raises
    ------
    UserError
        As `folded`, and if a parameter is beyond float32.
    """
    parameters = folded(network, module)
    with torch.device("meta"):  # without drawing an unused initialisation
        plain = module_of(deployed(network))
    plain.to_empty(device="cpu")
    weighted = [layer for layer in plain if isinstance(layer, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for layer, pair in zip(weighted, parameters, strict=True):
            layer.weight.copy_(torch.from_numpy(pair.weight))
            layer.bias.copy_(torch.from_numpy(pair.bias))  # type: ignore[union-attr]
    check_finite(plain, network.name)
    return plain


def check_finite(module: nn.Module, where: str) -> None:
    """Raise `UserError` with the name of a tensor with NaN or infinity."""
    for name, tensor in module.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise UserError(f"{where}: {name} has NaN or infinity")
