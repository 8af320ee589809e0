"""Conversion between descriptions and PyTorch modules, and folding of batch norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..errors import UserError
from .layers import Add, AveragePool, BatchNorm, Convolution, Depthwise, Flatten, Layer, Linear, MaxPool, Relu, Shape
from .network import Network, deployed
from .stages import Stage
from .torch_layers import TorchLayer, layer_of, torch_layers


@dataclass(frozen=True)
class StageParameters:
    """Weight and bias of a stage after folding batch norm.

    Parameters
    ----------
    weight : array of float64, the stage's `weight_shape`
    bias : array of float64, (biases,)
        Zeros if the layer has no bias.
    """

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]


Parameters = tuple[StageParameters, ...]
"""Weights and biases of all stages of a network."""


def module_of(network: Network) -> nn.Sequential:
    """Create the PyTorch module of a description, layer by layer.

    Initialised with PyTorch's defaults from its global generator, which the caller seeds.
    """
    modules: list[nn.Module] = []
    stages = iter(network.stages)
    stage: Stage | None = None
    for layer in network.layers:
        if isinstance(layer, Convolution | Linear):
            stage = next(stages)
        modules.append(_module(layer, stage))
    return nn.Sequential(*modules)


def _module(layer: Layer, stage: Stage | None) -> nn.Module:
    match layer:
        case Relu():
            return nn.ReLU()
        case MaxPool(size):
            return nn.MaxPool2d(size, layer.stride)
        case Flatten():
            return nn.Flatten()
        case AveragePool() | Add() | Depthwise():
            raise UserError(f"a {type(layer).__name__} has no PyTorch module here yet")
    assert stage is not None, "a description has a layer with weights before its batch norms"
    if isinstance(layer, BatchNorm):
        return (nn.BatchNorm1d if isinstance(stage.layer, Linear) else nn.BatchNorm2d)(stage.biases)
    if isinstance(layer, Convolution):
        top, bottom, left, right = layer.padding
        if (top, left) != (bottom, right) or layer.stride != (1, 1):
            raise UserError("a convolution with a stride, or more zeros on one side, has no PyTorch module here yet")
        return nn.Conv2d(stage.channels, layer.channels, layer.kernel, padding=(top, left))
    return nn.Linear(stage.inputs, stage.biases)


def network_of(module: nn.Module, input_shape: Shape, name: str) -> Network:
    """Derive the description of a user's module.

    Parameters
    ----------
    module : nn.Sequential
        Conv2d, BatchNorm1d, BatchNorm2d, ReLU, MaxPool2d, Flatten and Linear, in any nesting of Sequentials. Dropout
        and Identity are left out, as they have no effect in evaluation mode.
    input_shape : tuple of int
        Shape of one sample.
    name : str
        Origin of the module for messages: ``model.py:build``.

    Raises
    ------
    UserError
        If a module or an arrangement has no hardware, or sizes do not fit each other.
    """
    found = torch_layers(module, name)
    layers = tuple(layer_of(torch_layer, name) for torch_layer in found)
    try:
        network = Network(name, input_shape, layers)
    except UserError as mistake:
        if [torch_layer.position for torch_layer in found] == [str(number) for number in range(len(found))]:
            raise
        counted = "counted in nested Sequentials, without Dropout and Identity"
        raise UserError(f"{mistake} (layers {counted})") from None
    stages = iter(network.stages)
    stage: Stage | None = None
    for torch_layer, layer in zip(found, layers, strict=True):
        if isinstance(layer, Convolution | Linear):
            stage = next(stages)
        if stage is not None:
            _check_sizes(torch_layer, stage, name)
    return network


def _check_sizes(torch_layer: TorchLayer, stage: Stage, name: str) -> None:
    where = f"layer {torch_layer.position} of {name}"
    match torch_layer.module:
        case nn.Conv2d(in_channels=declared):
            given, what = stage.channels, "input channels"
        case nn.Linear(in_features=declared):
            given, what = stage.inputs, "input features"
        case nn.BatchNorm1d(num_features=declared) | nn.BatchNorm2d(num_features=declared):
            right = "BatchNorm1d" if isinstance(stage.layer, Linear) else "BatchNorm2d"
            if type(torch_layer.module).__name__ != right:
                before = type(stage.layer).__name__.lower()
                raise UserError(f"{where} is a {type(torch_layer.module).__name__} after a {before} layer: use {right}")
            given, what = stage.biases, "channels" if right == "BatchNorm2d" else "features"
        case _:
            return
    if declared != given:
        shape = "" if what in ("channels", "features") else f" ({' x '.join(map(str, stage.input_shape))})"
        raise UserError(f"{where} is declared with {declared} {what}, but the layer before gives {given}{shape}")


def folded(network: Network, module: nn.Module) -> Parameters:
    """Weights and biases of a trained module in float64, with batch norm folded as in evaluation mode.

    Parameters
    ----------
    network : Network
        Description of the module.
    module : nn.Sequential
        From `module_of`, or the user's.

    Raises
    ------
    UserError
        If a tensor has NaN or infinity, or the module does not fit the network.
    """
    check_finite(module, network.name)
    pairs: list[StageParameters] = []
    for torch_layer in torch_layers(module, network.name):
        layer = torch_layer.module
        if isinstance(layer, nn.Conv2d | nn.Linear):
            weight = _array(layer.weight)
            pairs.append(StageParameters(weight, np.zeros(len(weight)) if layer.bias is None else _array(layer.bias)))
        elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            pairs[-1] = _normalised(pairs[-1], layer, f"{network.name}, {torch_layer.position}.running_var")
    shapes = [pair.weight.shape for pair in pairs]
    expected = [stage.weight_shape for stage in network.stages]
    if shapes != expected:
        raise UserError(f"{network.name} has weights of {expected}, but the module has {shapes}")
    return tuple(pairs)


def _normalised(before: StageParameters, norm: nn.BatchNorm1d | nn.BatchNorm2d, where: str) -> StageParameters:
    assert norm.running_mean is not None, "layer_of() refuses a batch norm without running statistics"
    assert norm.running_var is not None, "as above"
    variance = _array(norm.running_var) + norm.eps
    if (variance <= 0).any():
        raise UserError(f"{where} has a value below -{norm.eps}: a variance is not negative")
    scale = 1 / np.sqrt(variance)
    shift = np.zeros(len(scale))
    if norm.affine:
        scale, shift = scale * _array(norm.weight), _array(norm.bias)
    bias = (before.bias - _array(norm.running_mean)) * scale + shift
    return StageParameters(before.weight * scale.reshape(-1, *[1] * (before.weight.ndim - 1)), bias)


def _array(tensor: torch.Tensor) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().cpu().to(torch.float64).numpy()).copy()


def deployed_module(network: Network, module: nn.Module) -> nn.Sequential:
    """Trained module of the deployed network in float32, without drawing random numbers.

    Parameters
    ----------
    network, module
        See `folded`; the module is not modified.

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
    """Raise `UserError` with the name of a tensor that has NaN or infinity."""
    for name, tensor in module.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise UserError(f"{where}: {name} has NaN or infinity")
