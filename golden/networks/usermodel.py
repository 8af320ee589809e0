"""A user's own network: ``file.py:build``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from torch import nn

from ..errors import UserError


def user_module(reference: str) -> nn.Sequential:
    """Run the user's function and take the Sequential that it returns.

    This runs the user's file as Python does; weights come from elsewhere (`checkpoint`), and those files are only data.

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
    spec = importlib.util.spec_from_file_location("fabtune_user_model", path)
    if spec is None or spec.loader is None:
        raise UserError(f"--model {reference}: {path} is no Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
        build = getattr(module, name, None)
        if not callable(build):
            raise UserError(f"--model {reference}: {path} has no function {name}")
        made = build()
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"--model {reference} failed: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    finally:
        sys.dont_write_bytecode = keep
    if not isinstance(made, nn.Sequential):
        kind = type(made)
        raise UserError(
            f"--model {reference} returned a {kind.__module__}.{kind.__qualname__}, not a torch.nn.Sequential: "
            "only a chain of layers has hardware"
        )
    return made
