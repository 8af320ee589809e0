"""Import of any PyTorch module, by the graph of operators that `torch.export` makes of it."""

from __future__ import annotations

import inspect
import logging
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn.modules import transformer

from ...errors import UserError
from ...models.layers import Shape
from ...models.module import NetworkModule
from ...models.network import Network
from ...models.stages import excess
from .batch_size import check_batch_size
from .exported_graph import is_users, shown
from .on_host import as_written, evaluated
from .operators import import_program
from .program import functional

_BATCH = 2
"""Samples with which a module is exported: more than one, so that a view that mixes them is seen."""


class SampleError(UserError):
    """Refusal of a module that fails on samples of a shape."""


def network_of(module: nn.Module | ExportedProgram, input_shape: Shape, name: str) -> Network:
    """Derive the description of a user's module; parameters and errors as of `imported`."""
    return imported(module, input_shape, name)[0]


def imported(module: nn.Module | ExportedProgram, input_shape: Shape, name: str) -> tuple[Network, NetworkModule]:
    """Describe a user's module, and copy its weights to a module of the description.

    Parameters
    ----------
    module : nn.Module or ExportedProgram
        Takes a batch of samples, gives their logits, and consists of operators that the description has layers for; as
        it is in evaluation mode, or was when it was exported. Not modified.
    input_shape : tuple of int
        Shape of one sample as the module takes it; a sample of (channels, length) becomes one of (channels, 1, length).
    name : str
        Origin of the module for messages: ``model.py:build``.

    Returns
    -------
    Network
    NetworkModule
        In evaluation mode, float32; it says how the module's samples become those of the description.

    Raises
    ------
    SampleError
        If the module fails on such samples.
    UserError
        If the module cannot be exported, or has an operator, weights or an arrangement without hardware.
    """
    found = import_program(exported(module, input_shape, name), input_shape, name)
    if not isinstance(module, ExportedProgram):
        check_batch_size(module, input_shape, name)
    return found


def exported(module: nn.Module | ExportedProgram, input_shape: Shape, name: str) -> ExportedProgram:
    """Export a module, with operators that all give a new tensor; parameters and errors as of `imported`."""
    if reason := excess(input_shape):
        raise UserError(f"{name}: a sample {reason}")
    if isinstance(module, ExportedProgram):
        _check_weights(module.state_dict, name)
        with _without_messages():
            return functional(module, name)
    _check_kind(module, name)
    _check_weights({**dict(module.named_parameters()), **dict(module.named_buffers())}, name)
    _check_inputs(module, name)
    with evaluated(module), as_written(module):
        _try(module, input_shape, name)
        return _export(module, input_shape, name)


def _check_kind(module: nn.Module, name: str) -> None:
    """Refuse modules that are no Python code, or whose weights are not values."""
    for title, one in module.named_modules():
        kind, where = type(one), f"{name}{title and f', layer {title}'}"
        if isinstance(one, torch.jit.ScriptModule | torch.jit.ScriptFunction):
            raise UserError(f"{where} is TorchScript: give the module from which it was scripted or traced")
        if ".quantized" in kind.__module__ or ".quantizable" in kind.__module__:
            raise UserError(f"{where} is quantised ({kind.__name__}): give the module in float, before that")
        if hasattr(one, "_orig_mod"):
            raise UserError(f"{where} is compiled: give the module as it is before torch.compile")
        if isinstance(one, nn.DataParallel):
            raise UserError(f"{where} is {kind.__name__}: give the module in it, its attribute module")


def _check_weights(tensors: Mapping[str, Tensor], name: str) -> None:
    for title, tensor in tensors.items():
        if nn.parameter.is_lazy(tensor):
            raise UserError(f"{name}: {title} has no shape yet: run the module once on a sample first")
        if tensor.is_meta:
            raise UserError(f"{name}: {title} has no values (it is on the device meta)")
        if tensor.is_complex():
            raise UserError(f"{name}: {title} is {str(tensor.dtype)[6:]}, which has no hardware")
        if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
            raise UserError(f"{name}: {title} is {str(tensor.dtype)[6:]}: convert the module with .float() first")


def _check_inputs(module: nn.Module, name: str) -> None:
    kinds = inspect.Parameter
    needed = [
        one.name
        for one in inspect.signature(module.forward).parameters.values()
        if one.default is kinds.empty and one.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    ]
    if len(needed) > 1:
        raise UserError(f"{name} takes {len(needed)} inputs ({', '.join(needed)}): a network here has one")


def _example(module: nn.Module, input_shape: Shape) -> Tensor:
    dtype = next((one.dtype for one in module.parameters()), torch.float32)
    return torch.zeros(_BATCH, *input_shape, dtype=dtype)


def _try(module: nn.Module, input_shape: Shape, name: str) -> None:
    """Run a module once: its own mistakes have plain messages here, and a place."""
    entered: list[str] = [""]
    hooks = [
        one.register_forward_pre_hook(lambda *_, title=title: entered.append(title))
        for title, one in module.named_modules()
    ]
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = module(_example(module, input_shape))
    except Exception as error:
        place = _place_of_error(error) or (f"{name}, layer {entered[-1]}" if entered[-1] else name)
        shape = " x ".join(map(str, input_shape))
        raise SampleError(f"{place}: fails on samples of {shape}: {_line(error)}") from error
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(made, Tensor):
        count = f"a {type(made).__name__}"
        if isinstance(made, tuple | list | dict):
            count = f"{len(made)} outputs" + (" by name" if isinstance(made, dict) else "")
        raise UserError(f"{name} gives {count}: a network here has one, the logits")


def _export(module: nn.Module, input_shape: Shape, name: str) -> ExportedProgram:
    try:
        with _without_messages(), _without_hints():
            program = torch.export.export(module, (_example(module, input_shape),), strict=False)
            # operators in place become such that give a new tensor; all others stay as they are
            functional: ExportedProgram = program.run_decompositions({})
            return functional
    except Exception as error:
        place = _place_of_error(error) or name
        raise UserError(
            f"{place}: cannot be exported, as it decides by values of tensors, or is not of tensors: {_line(error)}"
        ) from error


@contextmanager
def _without_messages() -> Iterator[None]:
    """Context without PyTorch's warnings about its own code, its log, and the graphs that it prints."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _without_hints() -> Iterator[None]:
    """Context in which encoders of PyTorch do not look whether a mask is causal.

    An export has no values of the mask. The answer is a hint alone: the mask itself is added where it is no.
    """
    own = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = own


def _place_of_error(error: BaseException) -> str:
    """Line of the user's file at which an exception was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return f"{shown(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def _line(error: Exception) -> str:
    """First line of an exception's message; PyTorch's messages are long."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
