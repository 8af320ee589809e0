"""Check of a user's module: outputs of a sample do not depend on the number of samples in the batch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import UserError
from ..models.layers import Shape
from .exported_graph import is_users, shown
from .on_host import evaluated

_SAMPLES, _MORE = 2, 3
"""Samples of the first run, as many as of an export, and of the second run."""
_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}
"""Largest difference relative to the largest output: rounding depends on the batch size."""
_SHAPING = frozenset(("size", "stride", "shape", "repeats", "end", "split_size", "split_sizes"))
"""Arguments of operators that may grow with the number of samples."""


def check_batch_size(module: nn.Module, input_shape: Shape, name: str) -> None:
    """Refuse a module that computes with the size of its batch; the module is not modified.

    An export fixes the batch size, but networks here take any. The module runs on random samples, then on the same
    samples within a larger batch, in float64 or else in its own type. Both runs must have the same operators with the
    same numbers, except for shapes, and give the same values. `input_shape` is a sample's shape, `name` the module's
    origin for messages.

    Raises
    ------
    UserError
        Names the first layer whose outputs differ.
    """
    with evaluated(module), torch.no_grad():
        for dtype in (torch.float64, next((parameter.dtype for parameter in module.parameters()), torch.float32)):
            samples = torch.randn(_MORE, *input_shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
            calls, first_samples = _Calls(name), samples[:_SAMPLES]
            try:
                with calls:
                    first = _outputs(module, first_samples)
                with calls.again:
                    second = _outputs(module, samples)
            except UserError:
                raise
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


class _Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that records a run's operators with their numbers, or compares another run with the record.

    `name` is the module's origin for messages, `expected` the record.
    """

    def __init__(self, name: str, expected: Sequence[tuple[Any, dict[str, Any]]] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._name, self._expected = name, expected
        self._calls: list[tuple[Any, dict[str, Any]]] = []

    @property
    def again(self) -> _Calls:
        return _Calls(self._name, self._calls)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        names = [argument.name for argument in func._schema.arguments]
        arguments = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
        call = func, {key: value for key, value in arguments.items() if _is_number(value)}
        if self._expected is not None:
            before = self._expected[len(self._calls) : len(self._calls) + 1]
            if not before or not _alike(before[0], call):
                raise UserError(
                    f"{_users_line() or self._name}: computes with the size of its batch, as {func} differs for "
                    f"{_SAMPLES} and {_MORE} samples: compute with each sample alone"
                )
        self._calls.append(call)
        return func(*args, **(kwargs or {}))


def _is_number(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_number, value))
    return isinstance(value, int | float)


def _alike(first: tuple[Any, dict[str, Any]], second: tuple[Any, dict[str, Any]]) -> bool:
    """True for two calls of one operator with equal numbers, apart from shapes, which may grow with the samples."""
    if first[0] is not second[0] or first[1].keys() != second[1].keys():
        return False
    return all(_grown(value, second[1][key], key in _SHAPING) for key, value in first[1].items())


def _grown(first: Any, second: Any, shaping: bool) -> bool:
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(_grown(*pair, shaping) for pair in zip(first, second, strict=True))
    return repr(first) == repr(second) or (shaping and bool(first * _MORE == second * _SAMPLES))


def _users_line() -> str:
    """Line of the user's file in execution."""
    frame: Any = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def _outputs(module: nn.Module, samples: Tensor) -> Any:
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    typed = {name: tensor.to(samples.dtype) for name, tensor in tensors.items() if tensor.is_floating_point()}
    return torch.func.functional_call(module, typed, (samples,))


def _differ(first: Tensor, second: Tensor) -> bool:
    """True if the samples have other values when more samples follow them in the batch."""
    if not _comparable(first, second):
        return True
    expected, actual = (values.nan_to_num(0.0, 1.0, -1.0) for values in (first, second[:_SAMPLES]))
    largest = max(1e-30, float(expected.abs().amax())) if expected.numel() else 0.0
    return bool(((actual - expected).abs() > _TOLERANCES[first.dtype] * largest).any())


def _comparable(first: Any, second: Any) -> bool:
    return (
        isinstance(first, Tensor)
        and isinstance(second, Tensor)
        and first.dtype in _TOLERANCES
        and first.shape[:1] == (_SAMPLES,)
        and second.shape == (_MORE, *first.shape[1:])
    )


def _place(module: nn.Module, samples: Tensor) -> str:
    """First layer whose outputs differ, or before which values differ."""
    titles = {child: title for title, child in module.named_modules()}
    first, second = (_passed(module, samples[:count]) for count in (_SAMPLES, _MORE))
    for (layer, when, value), (other, _, again) in zip(first, second, strict=False):
        if layer is other and titles[layer] and _comparable(value, again) and _differ(value, again):
            return f", {when} layer {titles[layer]}"
    return ""


def _passed(module: nn.Module, samples: Tensor) -> list[tuple[nn.Module, str, Any]]:
    """First input and output of each layer, in order of execution."""
    passed: list[tuple[nn.Module, str, Any]] = []
    with ExitStack() as hooks:
        for layer in module.modules():
            before = layer.register_forward_pre_hook(
                lambda child, inputs: passed.append((child, "before", inputs[:1] and inputs[0]))
            )
            after = layer.register_forward_hook(lambda child, _, output: passed.append((child, "in", output)))
            hooks.enter_context(before)
            hooks.enter_context(after)
        _outputs(module, samples)
    return passed
