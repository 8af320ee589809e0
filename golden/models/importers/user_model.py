"""Loader of a user's network from ``file.py:build``."""

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

from ...errors import UserError
from ..layers import Shape
from ..module import NetworkModule
from ..network import Network
from .exported import SampleError, imported
from .on_host import adapt
from .onnx_file import is_onnx, onnx_network

_NAME = "fabtune_user_model"


def user_module(reference: str) -> nn.Module:
    """Call the user's function and return its module, on the CPU, of float64 in float32.

    The user's file is executed, with imports from its own folder; what it prints goes to stderr, so that a command's
    own output stays whole. Weights are loaded separately (`checkpoint`) from files that are only data.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function``; the function takes no arguments.

    Raises
    ------
    UserError
        If there is no such file or function, it fails, or it returns anything but a `torch.nn.Module`.
    """
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
    if not isinstance(made, nn.Module):
        kind = type(made)
        raise UserError(f"{reference} returned a {kind.__module__}.{kind.__qualname__}, not a torch.nn.Module")
    return made


def user_network(reference: str, input_shape: Shape | None) -> tuple[Network, nn.Module]:
    """Load a user's network.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function``, see `user_module`; or ``path/to/file.onnx``.
    input_shape : tuple of int, optional
        Shape of a sample as the module takes it, or as its description does; an ONNX file says it itself.

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
    if input_shape is None:
        raise UserError(f"{reference} does not say which samples it takes: give --input, such as 3x32x32 or 640")
    module = user_module(reference)
    try:
        network, own = imported(module, input_shape, reference)
    except SampleError:
        found = _of_described(module, input_shape, reference)
        if found is None:
            raise
        network, own = found
    return network, adapt(module, own)


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
