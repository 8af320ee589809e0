"""A user's own network: ``file.py:build``."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from ..errors import UserError

_NAME = "fabtune_user_model"


def user_module(reference: str) -> nn.Sequential:
    """Run the user's function and take the Sequential that it returns, on the CPU and in float32.

    This runs the user's file as Python does, with imports from the file's own folder; weights come from elsewhere
    (`checkpoint`), and those files are only data.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function``; the function takes no arguments.

    Raises
    ------
    UserError
        If there is no such file or function, it fails, or it returns anything but a `torch.nn.Sequential`.
    """
    file, colon, name = reference.rpartition(":")
    if not colon or not name.isidentifier():
        raise UserError(f"--model {reference!r} is not file.py:function, as in model.py:build")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"--model {reference}: {path} is not a file")
    spec = importlib.util.spec_from_file_location(_NAME, path)
    if spec is None or spec.loader is None:
        raise UserError(f"--model {reference}: {path} is no Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    # the interpreter looks there for the names in a dataclass's annotations
    sys.modules[_NAME] = module
    try:
        with _own_folder(path):
            spec.loader.exec_module(module)
            build = getattr(module, name, None)
            if not callable(build) or isinstance(build, nn.Module):
                raise UserError(f"--model {reference}: {path} has no function {name}")
            made = build()
            if isinstance(made, nn.Sequential):
                made.to("cpu", torch.float32)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        raise UserError(f"--model {reference} failed{_line(error, path)}: {type(error).__name__}: {said}") from error
    if not isinstance(made, nn.Sequential):
        kind = type(made)
        raise UserError(
            f"--model {reference} returned a {kind.__module__}.{kind.__qualname__}, not a torch.nn.Sequential: "
            "only a chain of layers has hardware"
        )
    return made


@contextmanager
def _own_folder(path: Path) -> Iterator[None]:
    """Let the file import its neighbours, as a script can, and leave no compiled files beside it."""
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
    """Where in the user's file an exception came from; a syntax error says so itself."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    return f" in line {lines[-1]}" if lines else ""
