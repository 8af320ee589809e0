"""Loader of a user's network from ``file.py:build``, or from a file that holds it."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from math import prod
from pathlib import Path

import torch
from torch import nn
from torch.export import ExportedProgram

from ...errors import UserError
from ...models.layers import Shape, by
from ...models.module import NetworkModule
from ...models.network import Network
from .exported import SampleError, imported
from .on_host import adapt
from .onnx_file import is_onnx, onnx_network
from .program import is_program, load_program, sample_shape

_NAME = "fabtune_user_model"


def holds_network(reference: str) -> bool:
    """Tell whether a reference is the name of a file that holds a network, and says which samples it takes."""
    return is_onnx(reference) or is_program(reference)


def user_module(reference: str) -> nn.Module | ExportedProgram:
    """Call the user's function and return its module, on the CPU, of float64 in float32; or load a program's file.

    The user's file is executed, with imports from its own folder; what it prints goes to stderr, so that a command's
    own output stays whole. Weights are loaded separately (`checkpoint`) from files that are only data.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function``, where the function takes no arguments; or ``path/to/file.pt2``.

    Raises
    ------
    UserError
        If there is no such file or function, it fails, or it returns anything but a `torch.nn.Module` or a program of
        `torch.export`.
    """
    if is_program(reference):
        return load_program(Path(reference))
    file, colon, name = reference.rpartition(":")
    if not colon or not name.isidentifier():
        raise UserError(f"{reference!r} is not file.py:function, as in model.py:build")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"{reference}: {path} is not a file")
    spec = importlib.util.spec_from_file_location(_NAME, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{reference}: {path} is not a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    # a dataclass looks up the names in its annotations there
    sys.modules[_NAME] = module
    try:
        with _own_folder(path), redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
            build = getattr(module, name, None)
            if not callable(build) or isinstance(build, nn.Module):
                raise UserError(f"{reference}: {path} has no function {name}")
            made = build()
            if isinstance(made, nn.Module):
                made.to("cpu")
                if all(one.dtype == torch.float64 for one in made.parameters()):
                    made.float()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        raise UserError(f"{reference} failed{_line(error, path)}: {type(error).__name__}: {text}") from error
    if not isinstance(made, nn.Module | ExportedProgram):
        kind = type(made)
        raise UserError(f"{reference} returned a {kind.__module__}.{kind.__qualname__}, not a torch.nn.Module")
    return made


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


@contextmanager
def _own_folder(path: Path) -> Iterator[None]:
    """Context in which a file can import from its own folder, without writing compiled files there."""
    folder, keep = str(path.resolve().parent), sys.dont_write_bytecode
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = keep
        if folder in sys.path:
            sys.path.remove(folder)


def _line(error: BaseException, path: Path) -> str:
    """Line of the user's file in which an exception was raised; empty for syntax errors, which contain it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    return f" in line {lines[-1]}" if lines else ""
