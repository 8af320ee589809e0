"""Loader of a user's module from ``file.py:build``, or of a program from a file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import torch
from torch import nn
from torch.export import ExportedProgram

from ..errors import UserError
from .graph import first_line
from .onnx_file import is_onnx

_NAME = "fabtune_user_model"


def holds_network(reference: str) -> bool:
    """True for the name of a file with both a network and the shape of samples."""
    return is_onnx(reference) or is_program(reference)


def is_program(reference: str) -> bool:
    """True for the name of a program's file."""
    return reference.endswith(".pt2")


def _load_program(path: Path) -> ExportedProgram:
    """Program read by PyTorch's reader, which may run code of the file: as trusted as a Python file.

    Raises
    ------
    UserError
        If the file is absent or damaged.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about PyTorch's own code
            return torch.export.load(path)
    except Exception as error:  # the reader raises arbitrary exceptions on damaged files
        raise UserError(f"{path} is not a program of torch.export, or is damaged: {first_line(error)}") from error


def user_module(reference: str) -> nn.Module | ExportedProgram:
    """Module returned by the user's function, on the CPU and with float64 converted to float32; or a loaded program.

    The user's file is executed and may import from its folder. Prints go to stderr, apart from a command's output.
    Weights are loaded separately (`checkpoint`) from files of data only.

    `reference` is ``path/to/file.py:function`` for a function without arguments, or ``path/to/file.pt2``.

    Raises
    ------
    UserError
        If file or function is missing, the function fails, or the result is neither a `torch.nn.Module` nor a program.
    """
    if is_program(reference):
        return _load_program(Path(reference))
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
    # dataclasses resolve their annotations in sys.modules
    sys.modules[_NAME] = module
    try:
        with _own_folder(path), redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
            build = getattr(module, name, None)
            if not callable(build) or isinstance(build, nn.Module):
                raise UserError(f"{reference}: {path} has no function {name}")
            result = build()
            if isinstance(result, nn.Module):
                result.to("cpu")
                if all(parameter.dtype == torch.float64 for parameter in result.parameters()):
                    result.float()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        raise UserError(f"{reference} failed{_line(error, path)}: {type(error).__name__}: {text}") from error
    if not isinstance(result, nn.Module | ExportedProgram):
        kind = type(result)
        raise UserError(f"{reference} returned a {kind.__module__}.{kind.__qualname__}, not a torch.nn.Module")
    return result


@contextmanager
def _own_folder(path: Path) -> Iterator[None]:
    """Context in which a file can import from its folder, without compiled files in there."""
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
    """Line of the user's file behind an exception; empty for syntax errors, as their text has the line."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    return f" in line {lines[-1]}" if lines else ""
