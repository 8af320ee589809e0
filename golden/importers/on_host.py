"""Adaptation of a user's module: the description's samples as inputs, logits as outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..models.element_order import ElementOrder
from ..models.module import NetworkModule


class _Samples:
    """Hook before a module: converts the description's samples to the module's own.

    `order` leads from the module's samples to the description's.
    """

    def __init__(self, order: ElementOrder) -> None:
        self._order = order

    def __call__(self, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor]:
        order, samples = self._order, inputs[0]
        turned = samples.reshape(-1, *order.turned)
        return (turned.permute(0, *(1 + axis for axis in order.back)).reshape(-1, *order.given),)


def _logits(_: nn.Module, __: tuple[Any, ...], outputs: Tensor) -> Tensor:
    """Hook after a final softmax: replaces the probabilities by their logarithms."""
    return outputs.clamp(min=torch.finfo(outputs.dtype).tiny).log()


def adapt(module: nn.Module, own: NetworkModule) -> nn.Module:
    """Adapt a user's module in place to the description's samples and to logits; the state is unchanged.

    Logarithms of a softmax differ from the logits by a number per sample, without effect on losses and decisions. A
    final log_softmax already returns them. `own` is the description's module, from `layers.network.imported`.
    """
    if own.samples is not None:
        module.register_forward_pre_hook(_Samples(own.samples))
    if own.left_to_host == ["softmax"]:
        module.register_forward_hook(_logits)
    return module


@contextmanager
def as_written(module: nn.Module) -> Iterator[None]:
    """Context with the author's outputs of a module, without the logarithm."""
    hooks = {key: hook for key, hook in module._forward_hooks.items() if hook is _logits}
    for key in hooks:
        del module._forward_hooks[key]
    try:
        yield
    finally:
        module._forward_hooks.update(hooks)


@contextmanager
def evaluated(module: nn.Module) -> Iterator[None]:
    """Context with a module in evaluation mode."""
    modes = [(child, child.training) for child in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for child, mode in modes:
            child.training = mode
