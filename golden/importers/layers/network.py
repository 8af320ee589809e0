"""Networks of layers from a user's file or module: description, and module with the weights."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from pathlib import Path

from torch import nn
from torch.export import ExportedProgram

from ...errors import UserError
from ...models.layers import Shape, by
from ...models.module import NetworkModule
from ...models.network import Network
from ..batch_size import check_batch_size
from ..exported import SampleError, exported, sample_shape
from ..on_host import adapt
from ..onnx_file import is_onnx, onnx_model
from ..user_module import user_module
from .exported_layers import ExportedLayers
from .onnx_layers import OnnxLayers


def network_of(module: nn.Module | ExportedProgram, input_shape: Shape, name: str) -> Network:
    """Description of a user's module; parameters and errors as of `imported`."""
    return imported(module, input_shape, name)[0]


def imported(module: nn.Module | ExportedProgram, input_shape: Shape, name: str) -> tuple[Network, NetworkModule]:
    """Description of a user's module, and a module of the description with the weights.

    Parameters
    ----------
    module : nn.Module or ExportedProgram
        Takes a batch of samples, returns their logits, and has only operators with a layer in descriptions. A module is
        exported in evaluation mode, and not modified.
    input_shape : tuple of int
        Shape of a sample for the module; (channels, length) becomes (channels, 1, length).
    name : str
        Origin of the module for messages: ``model.py:build``.

    Returns
    -------
    Network
    NetworkModule
        In evaluation mode, float32; has the conversion between the module's samples and the description's.

    Raises
    ------
    SampleError
        If the module fails on samples of this shape.
    UserError
        If the module cannot be exported, or has an operator, weights or an arrangement without hardware.
    """
    result = ExportedLayers(exported(module, input_shape, name), input_shape, name).run()
    if not isinstance(module, ExportedProgram):
        check_batch_size(module, input_shape, name)
    return result


def onnx_network(path: Path) -> tuple[Network, NetworkModule]:
    """Description and module of an ONNX file's network, with layers named by the file's nodes; see `onnx_model`.

    The module is in evaluation mode, float32.

    Raises
    ------
    UserError
        If the package onnx is missing, the file is too large or damaged, the network has several inputs or outputs, or
        a node has no hardware.
    """
    model, opset = onnx_model(path)
    return OnnxLayers(model, str(path), opset).run()


def user_network(reference: str, input_shape: Shape | None) -> tuple[Network, nn.Module]:
    """Description of a user's network, and the module with weights, from the description's samples to logits.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function`` or ``path/to/file.pt2``, see `user_module`; or ``path/to/file.onnx``.
    input_shape : tuple of int, optional
        Shape of a sample for the module or the description; not needed for ONNX files and programs.

    Raises
    ------
    UserError
        If a file is wrong, or the network has no hardware.
    """
    if is_onnx(reference):
        return onnx_network(Path(reference))
    module = user_module(reference)
    if isinstance(module, ExportedProgram):
        return _of_program(module, input_shape, reference)
    if input_shape is None:
        raise UserError(f"{reference} does not say which samples it takes: give --input, such as 3x32x32 or 640")
    try:
        network, description = imported(module, input_shape, reference)
    except SampleError:
        reshaped = _of_described(module, input_shape, reference)
        if reshaped is None:
            raise
        network, description = reshaped
    return network, adapt(module, description)


def _of_program(program: ExportedProgram, asked: Shape | None, reference: str) -> tuple[Network, NetworkModule]:
    """Import a program; `given` is the user's shape of a sample, if any."""
    shape = sample_shape(program, reference)
    network, module = imported(program, shape, reference)
    if asked is not None and asked not in (shape, network.input_shape):
        raise UserError(f"{reference} takes samples of {by(shape)}, not of {by(asked)}")
    return network, module


def _of_described(module: nn.Module, shape: Shape, reference: str) -> tuple[Network, NetworkModule] | None:
    """Import a module whose samples differ in shape from the description's; `shape` is the description's."""
    if len(shape) != 3:
        return None
    channels, height, width = shape
    others: list[Shape] = [(height, width, channels), (prod(shape),)]
    if height == 1:
        others = [(channels, width), (width, channels), *others]
    for other in others:
        with suppress(UserError):
            candidate = imported(module, other, reference)
            if candidate[0].input_shape == shape:
                return candidate
    return None
