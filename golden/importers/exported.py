"""PyTorch modules and programs of `torch.export` as graphs of operators without side effects."""

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
from torch.export.graph_signature import InputKind, OutputKind
from torch.nn.modules import transformer

from ..errors import UserError
from ..models.layers import Shape
from ..models.stages import excess
from .exported_graph import is_users, shown
from .graph import first_line
from .on_host import as_written, evaluated

_BATCH = 2
"""Samples of an export: more than one, to detect views that mix samples."""


class SampleError(UserError):
    """Refusal of a module that fails on samples of a shape."""


def exported(module: nn.Module | ExportedProgram, input_shape: Shape, name: str) -> ExportedProgram:
    """Exported program without in-place operators.

    Parameters
    ----------
    module : nn.Module or ExportedProgram
        Takes a batch of samples. A module is exported in evaluation mode, and not modified.
    input_shape : tuple of int
        Shape of a sample for the module.
    name : str
        Origin of the module for messages: ``model.py:build``.

    Raises
    ------
    SampleError
        If the module fails on samples of this shape.
    UserError
        If the module cannot be exported.
    """
    if reason := excess(input_shape):
        raise UserError(f"{name}: a sample {reason}")
    if isinstance(module, ExportedProgram):
        _check_weights(module.state_dict, name)
        with _without_messages():
            return _functional(module, name)
    _check_kind(module, name)
    _check_weights({**dict(module.named_parameters()), **dict(module.named_buffers())}, name)
    _check_inputs(module, name)
    with evaluated(module), as_written(module):
        _try(module, input_shape, name)
        return _export(module, input_shape, name)


def sample_shape(program: ExportedProgram, name: str) -> Shape:
    """Shape of a sample for the program.

    Raises
    ------
    UserError
        Unless the program has a single output and a single input of floats, with fixed sizes except for the batch.
    """
    inputs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    outputs = [spec for spec in program.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    for several, what in ((inputs, "takes {} inputs"), (outputs, "gives {} outputs")):
        if len(several) != 1:
            raise UserError(f"{name} {what.format(len(several))}: a network here has one")
    sample = _sample(program)
    if not isinstance(sample, Tensor) or sample.dtype not in (torch.float32, torch.float64):
        kind = str(sample.dtype)[6:] if isinstance(sample, Tensor) else type(sample).__name__
        raise UserError(f"{name} takes samples of {kind}, not of float32")
    sizes = tuple(sample.shape)[1:]
    if not sizes or not all(isinstance(size, int) for size in sizes):
        shown = " x ".join(str(size) if isinstance(size, int) else "?" for size in sizes)
        raise UserError(f"{name} takes samples of {shown or 'no'} shape: export it with fixed sizes, but for the batch")
    return sizes


def _sample(program: ExportedProgram) -> Tensor:
    names = program.graph_signature.user_inputs
    (sample,) = (node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in names)
    tensor: Tensor = sample
    return tensor


def _functional(program: ExportedProgram, name: str) -> ExportedProgram:
    """Program without in-place operators, for the program's fixed batch size, or 2 if it takes any.

    Raises
    ------
    UserError
        If the program refuses 2 samples, or was exported in training mode.
    """
    sample = _sample(program)
    if not isinstance(sample.shape[0], int):
        try:
            again = torch.zeros(2, *sample.shape[1:], dtype=sample.dtype)
            program = torch.export.export(program.module(), (again,), strict=False)
        except Exception as error:
            raise UserError(f"{name} takes no batch of 2 samples: {first_line(error)}") from error
    program = program.run_decompositions({})
    for spec in program.graph_signature.output_specs:
        if spec.kind is OutputKind.BUFFER_MUTATION:
            raise UserError(f"{name} changes {spec.target} when it runs: export it in evaluation mode, after eval()")
    return program


def _check_kind(module: nn.Module, name: str) -> None:
    """Refuse modules without Python code, and modules without plain weights."""
    for title, child in module.named_modules():
        kind, where = type(child), f"{name}{title and f', layer {title}'}"
        if isinstance(child, torch.jit.ScriptModule | torch.jit.ScriptFunction):
            raise UserError(f"{where} is TorchScript: give the module from which it was scripted or traced")
        if ".quantized" in kind.__module__ or ".quantizable" in kind.__module__:
            raise UserError(f"{where} is quantised ({kind.__name__}): give the module in float, before that")
        if hasattr(child, "_orig_mod"):
            raise UserError(f"{where} is compiled: give the module as it is before torch.compile")
        if isinstance(child, nn.DataParallel):
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
        parameter.name
        for parameter in inspect.signature(module.forward).parameters.values()
        if parameter.default is kinds.empty and parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    ]
    if len(needed) > 1:
        raise UserError(f"{name} takes {len(needed)} inputs ({', '.join(needed)}): a network here has one")


def _example(module: nn.Module, input_shape: Shape) -> Tensor:
    dtype = next((parameter.dtype for parameter in module.parameters()), torch.float32)
    return torch.zeros(_BATCH, *input_shape, dtype=dtype)


def _try(module: nn.Module, input_shape: Shape, name: str) -> None:
    """Run a module once: the author's mistakes get plain messages with their place."""
    entered: list[str] = [""]
    hooks = [
        child.register_forward_pre_hook(lambda *_, title=title: entered.append(title))
        for title, child in module.named_modules()
    ]
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            output = module(_example(module, input_shape))
    except Exception as error:
        place = _place_of_error(error) or (f"{name}, layer {entered[-1]}" if entered[-1] else name)
        shape = " x ".join(map(str, input_shape))
        raise SampleError(f"{place}: fails on samples of {shape}: {first_line(error)}") from error
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(output, Tensor):
        count = f"a {type(output).__name__}"
        if isinstance(output, tuple | list | dict):
            count = f"{len(output)} outputs" + (" by name" if isinstance(output, dict) else "")
        raise UserError(f"{name} gives {count}: a network here has one, the logits")


def _export(module: nn.Module, input_shape: Shape, name: str) -> ExportedProgram:
    try:
        with _without_messages(), _without_hints():
            program = torch.export.export(module, (_example(module, input_shape),), strict=False)
            # replaces in-place operators; all other operators stay
            functional: ExportedProgram = program.run_decompositions({})
            return functional
    except Exception as error:
        place = _place_of_error(error) or name
        raise UserError(
            f"{place}: cannot be exported, as it decides by values of tensors, or is not of tensors:"
            f" {first_line(error)}"
        ) from error


@contextmanager
def _without_messages() -> Iterator[None]:
    """Context without PyTorch's log, printed graphs, and warnings about PyTorch's code."""
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
    """Context in which PyTorch's encoders skip the test of a mask for causality.

    An export has no values of the mask. The test only gives a hint: otherwise the encoder adds the mask itself.
    """
    detect = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = detect


def _place_of_error(error: BaseException) -> str:
    """Line of the user's file behind an exception; empty for other files."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return f"{shown(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
