"""A user's module as its description runs: on the description's samples, and with logits as its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..models.element_order import ElementOrder
from ..models.module import NetworkModule


class _Samples:
    """Hook before a module: it gets the description's samples as its own.

    Parameters
    ----------
    order : ElementOrder
        Way from the module's samples to the description's.
    """

    def __init__(self, order: ElementOrder) -> None:
        self._order = order

    def __call__(self, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor]:
        order, samples = self._order, inputs[0]
        turned = samples.reshape(-1, *order.turned)
        return (turned.permute(0, *(1 + at for at in order.back)).reshape(-1, *order.given),)


def _logits(_: nn.Module, __: tuple[Any, ...], outputs: Tensor) -> Tensor:
    """Hook behind a module that ends in softmax: logarithms, whose softmax is what the module gives."""
    return outputs.clamp(min=torch.finfo(outputs.dtype).tiny).log()


def adapt(module: nn.Module, own: NetworkModule) -> nn.Module:
    """Let a user's module take the description's samples and give logits, and return it; its state stays as it is.

    Logarithms of a softmax are logits that differ from those before it by one number for each sample, which no loss and
    no decision sees; a module that ends in log_softmax gives them itself.

    Parameters
    ----------
    module : nn.Module
        The user's.
    own : NetworkModule
        Of its description, from `layers.network.imported`.
    """
    if own.samples is not None:
        module.register_forward_pre_hook(_Samples(own.samples))
    if own.left_to_host == ["softmax"]:
        module.register_forward_hook(_logits)
    return module


@contextmanager
def as_written(module: nn.Module) -> Iterator[None]:
    """Context in which a module gives what its author has it give, on the samples of its description."""
    hooks = {key: hook for key, hook in module._forward_hooks.items() if hook is _logits}
    for key in hooks:
        del module._forward_hooks[key]
    try:
        yield
    finally:
        module._forward_hooks.update(hooks)


@contextmanager
def evaluated(module: nn.Module) -> Iterator[None]:
    """Context in which a module is in evaluation mode."""
    modes = [(one, one.training) for one in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for one, mode in modes:
            one.training = mode
