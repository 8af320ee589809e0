"""Conversion of the layers of a user's nn.Sequential to layers of a description, or the reason for refusing one."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from ..errors import UserError
from .layers import BatchNorm, Convolution, Flatten, Layer, Linear, MaxPool, Relu

SUPPORTED = "Conv2d, BatchNorm, ReLU, MaxPool2d, Flatten, Linear"

_IDLE = {
    # no effect in evaluation mode
    *(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
}


class TorchLayer(NamedTuple):
    """PyTorch layer and its name in the state dict: ``3``, or ``1.0`` in a nested Sequential."""

    position: str
    module: nn.Module


def torch_layers(module: nn.Module, name: str) -> tuple[TorchLayer, ...]:
    """Layers in the order in which they run, without Dropout and Identity; a layer used twice occurs twice.

    Raises
    ------
    UserError
        If the module is not a plain Sequential, or a layer has no hardware.
    """
    if not _plain(module):
        own = " with a forward of its own" if isinstance(module, nn.Sequential) else ""
        raise UserError(f"{name} gives a {_title(module)}{own}: it must be a torch.nn.Sequential of {SUPPORTED}")
    found: list[TorchLayer] = []
    for position, layer in module.named_modules(remove_duplicate=False):
        # refused here, before its children are visited
        if not _plain(layer) and type(layer) not in (*_IDLE, *_LAYERS):
            raise UserError(f"layer {position} of {name} is a {_title(layer)}, which has no hardware: use {SUPPORTED}")
        if type(layer) in _LAYERS:
            found.append(TorchLayer(position, layer))
    return tuple(found)


def layer_of(torch_layer: TorchLayer, name: str) -> Layer:
    """Convert a PyTorch layer to a layer of the description.

    Raises
    ------
    UserError
        If the layer has settings that the hardware does not support.
    """
    layer = torch_layer.module
    reason = _objection(layer)
    # pruning and weight norm replace a layer's parameters and recompute them in every forward pass
    if others := {key for key, _ in layer.named_parameters(recurse=False)} - {"weight", "bias"}:
        reason = f"no {min(others)}: remove the pruning or the parametrization first"
    if reason:
        raise UserError(f"layer {torch_layer.position} of {name}: a {type(layer).__name__} in hardware has {reason}")
    match layer:
        case nn.Conv2d():
            return Convolution(layer.out_channels, layer.kernel_size[0], _padding(layer))
        case nn.Linear():
            return Linear(layer.out_features)
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            return BatchNorm()
        case nn.MaxPool2d():
            return MaxPool(_pair(layer.kernel_size)[0])
        case nn.Flatten():
            return Flatten()
    return Relu()


def _objection(layer: nn.Module) -> str:
    """Requirement that a layer does not meet, or an empty text."""
    match layer:
        case nn.Conv2d():
            return _convolution_objection(layer)
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            return "" if layer.track_running_stats and layer.running_var is not None else "track_running_stats=True"
        case nn.MaxPool2d():
            kernel, stride = _pair(layer.kernel_size), _pair(layer.stride)
            if kernel[0] != kernel[1] or kernel != stride:
                return f"a square kernel and the same stride, not kernel {layer.kernel_size}, stride {layer.stride}"
            if _pair(layer.padding) != (0, 0) or _pair(layer.dilation) != (1, 1):
                return f"padding 0 and dilation 1, not {layer.padding} and {layer.dilation}"
            if layer.ceil_mode or layer.return_indices:
                return "neither ceil_mode nor return_indices"
        case nn.Flatten():
            if (layer.start_dim, layer.end_dim) != (1, -1):
                return f"start_dim=1 and end_dim=-1, not {layer.start_dim} and {layer.end_dim}"
    return ""


def _convolution_objection(layer: nn.Conv2d) -> str:
    kernel = layer.kernel_size
    if kernel[0] != kernel[1]:
        return f"a square kernel, not {kernel[0]} x {kernel[1]}"
    if layer.padding == "same" and kernel[0] % 2 == 0:
        return f"the same padding on every side, which 'same' is not for a kernel of {kernel[0]}"
    if not isinstance(layer.padding, str) and layer.padding[0] != layer.padding[1]:
        return f"the same padding on every side, not {layer.padding}"
    for setting, only in (("stride", (1, 1)), ("dilation", (1, 1)), ("groups", 1), ("padding_mode", "zeros")):
        if (value := getattr(layer, setting)) != only:
            return f"{setting} {only if isinstance(only, int | str) else 1}, not {value}"
    return ""


def _padding(layer: nn.Conv2d) -> int:
    if isinstance(layer.padding, str):
        return layer.kernel_size[0] // 2 if layer.padding == "same" else 0
    return layer.padding[0]


def _pair(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _plain(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _title(module: object) -> str:
    kind = type(module)
    return f"torch.nn.{kind.__name__}" if getattr(nn, kind.__name__, None) is kind else kind.__qualname__


_LAYERS = {nn.Conv2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d, nn.Flatten}
