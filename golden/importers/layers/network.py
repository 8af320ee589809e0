"""Networks of layers from a user's file or module: their description, and a module with their weights."""

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
    found = ExportedLayers(exported(module, input_shape, name), input_shape, name).run()
    if not isinstance(module, ExportedProgram):
        check_batch_size(module, input_shape, name)
    return found


def onnx_network(path: Path) -> tuple[Network, NetworkModule]:
    """Describe the network of an ONNX file, and make its module.

    Parameters
    ----------
    path : Path
        ONNX, with operators of `OPSETS`. Tensors may stand in other files of its folder.

    Returns
    -------
    Network
    NetworkModule
        In evaluation mode, float32; its layers have the names of the file's nodes.

    Raises
    ------
    UserError
        If the package onnx is not there, the file is too large, damaged or no network with one input and one output, or
        a node has no hardware.
    """
    model, opset = onnx_model(path)
    return OnnxLayers(model, str(path), opset).run()


def user_network(reference: str, input_shape: Shape | None) -> tuple[Network, nn.Module]:
    """Load a user's network.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function`` or ``path/to/file.pt2``, see `user_module`; or ``path/to/file.onnx``.
    input_shape : tuple of int, optional
        Shape of a sample as the module takes it, or as its description does; ONNX files and programs say it themselves.

    Returns
    -------
    Network
    nn.Module
        With its weights; it takes the description's samples, and gives logits.

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
        network, own = imported(module, input_shape, reference)
    except SampleError:
        found = _of_described(module, input_shape, reference)
        if found is None:
            raise
        network, own = found
    return network, adapt(module, own)


def _of_program(program: ExportedProgram, given: Shape | None, reference: str) -> tuple[Network, NetworkModule]:
    """Import a program, whose samples are of the shape that is given, if one is."""
    shape = sample_shape(program, reference)
    network, own = imported(program, shape, reference)
    if given is not None and given not in (shape, network.input_shape):
        raise UserError(f"{reference} takes samples of {by(shape)}, not of {by(given)}")
    return network, own


def _of_described(module: nn.Module, shape: Shape, reference: str) -> tuple[Network, NetworkModule] | None:
    """Import a module that takes samples of another shape than its description, given that of the description."""
    if len(shape) != 3:
        return None
    channels, height, width = shape
    others: list[Shape] = [(height, width, channels), (prod(shape),)]
    if height == 1:
        others = [(channels, width), (width, channels), *others]
    for other in others:
        with suppress(UserError):
            found = imported(module, other, reference)
            if found[0].input_shape == shape:
                return found
    return None
