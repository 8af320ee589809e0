"""Check of a user's module: what it gives for a sample does not depend on how many samples are in the batch."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UserError
from ..layers import Shape
from .on_host import evaluated

_SAMPLES, _MORE = 2, 3
"""Samples of the first run, which are those with which a module is exported, and of the second."""
_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}
"""Largest difference, relative to the largest output: a batch of another size is rounded otherwise."""


def check_batch_size(module: nn.Module, input_shape: Shape, name: str) -> None:
    """Refuse a module that computes with the size of its batch.

    An export holds one size, and a network here takes any. The module runs on random samples and on the same ones among
    more, in float64, or in its own type if it has tensors of that type alone.

    Parameters
    ----------
    module : nn.Module
        Not modified.
    input_shape : tuple of int
        Shape of one sample.
    name : str
        Origin of the module for messages.

    Raises
    ------
    UserError
        With the layer in which outputs first differ.
    """
    with evaluated(module), torch.no_grad():
        for dtype in (torch.float64, next((one.dtype for one in module.parameters()), torch.float32)):
            samples = torch.randn(_MORE, *input_shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
            try:
                first, second = (_outputs(module, samples[:count]) for count in (_SAMPLES, _MORE))
            except Exception:  # a tensor that forward makes of its own type
                continue
            if _differ(first, second):
                place = _place(module, samples)
                raise UserError(
                    f"{name}{place}: gives other values for {_SAMPLES} samples than for the same among {_MORE}: it "
                    "computes with the size of its batch: compute with each sample alone"
                )
            return
    raise UserError(f"{name}: runs on {_SAMPLES} samples and fails on {_MORE}: it is made for one size of its batch")


def _outputs(module: nn.Module, samples: Tensor) -> Any:
    """Outputs of a module whose floats have the type of the samples."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    typed = {own: one.to(samples.dtype) for own, one in tensors.items() if one.is_floating_point()}
    return torch.func.functional_call(module, typed, (samples,))


def _differ(first: Tensor, second: Tensor) -> bool:
    """Tell whether the first samples have other values in a larger batch."""
    if not _comparable(first, second):
        return True
    expected, found = (one.nan_to_num(0.0, 1.0, -1.0) for one in (first, second[:_SAMPLES]))
    largest = max(1e-30, float(expected.abs().amax())) if expected.numel() else 0.0
    return bool(((found - expected).abs() > _TOLERANCES[first.dtype] * largest).any())


def _comparable(first: Any, second: Any) -> bool:
    """Tell whether two values are of batches of samples."""
    return (
        isinstance(first, Tensor)
        and isinstance(second, Tensor)
        and first.dtype in _TOLERANCES
        and first.shape[:1] == (_SAMPLES,)
        and second.shape == (_MORE, *first.shape[1:])
    )


def _place(module: nn.Module, samples: Tensor) -> str:
    """Layer in which values first differ, or before which they do."""
    titles = {one: title for title, one in module.named_modules()}
    first, second = (_passed(module, samples[:count]) for count in (_SAMPLES, _MORE))
    for (layer, when, value), (other, _, again) in zip(first, second, strict=False):
        if layer is other and titles[layer] and _comparable(value, again) and _differ(value, again):
            return f", {when} layer {titles[layer]}"
    return ""


def _passed(module: nn.Module, samples: Tensor) -> list[tuple[nn.Module, str, Any]]:
    """First input and the output of each layer in their order in time."""
    passed: list[tuple[nn.Module, str, Any]] = []
    with ExitStack() as hooks:
        for layer in module.modules():
            before = layer.register_forward_pre_hook(
                lambda own, given: passed.append((own, "before", given[:1] and given[0]))
            )
            behind = layer.register_forward_hook(lambda own, _, made: passed.append((own, "in", made)))
            hooks.enter_context(before)
            hooks.enter_context(behind)
        _outputs(module, samples)
    return passed
