"""Weights in files. A file is data, never code: safetensors, or PyTorch's format read with ``weights_only``."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import UserError


def load_state(path: Path) -> dict[str, Tensor]:
    """A state dict: ``.safetensors``, anything else as PyTorch wrote it.

    Raises
    ------
    UserError
        If the file is absent, damaged, or holds anything but tensors by name.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file")
    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except SafetensorError as error:
        raise UserError(f"{path} is no safetensors file, or damaged: {_line(error)}") from error
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} holds more than tensors, or is damaged, and is not read: save model.state_dict()"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
        raise UserError(f"{path} is no PyTorch file, or damaged: {_line(error)}") from error
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(one, Tensor) for name, one in state.items()
    ):
        raise UserError(f"{path} is no state dict (tensors by name): save model.state_dict()")
    return state


def load_into(module: nn.Module, path: Path) -> None:
    """Load a state dict into a module.

    Raises
    ------
    UserError
        If a tensor is missing, unexpected, of another shape, or not finite; the module is unchanged then.
    """
    state, own = load_state(path), module.state_dict()
    for name in own:
        if name not in state:
            raise UserError(f"{path} lacks {name}, which the network has")
    for name, tensor in state.items():
        if name not in own:
            raise UserError(f"{path} has {name}, which the network has not")
        if tensor.shape != own[name].shape:
            raise UserError(f"{path}: {name} is {tuple(tensor.shape)}, the network's is {tuple(own[name].shape)}")
        if not torch.isfinite(tensor).all():
            raise UserError(f"{path}: {name} has NaN or infinity")
    module.load_state_dict({name: tensor.to(own[name].dtype) for name, tensor in state.items()})


def save_state(
    path: Path, tensors: Mapping[str, NDArray[np.generic]], metadata: Mapping[str, str], force: bool
) -> None:
    """Write tensors as safetensors, whole or not at all.

    Raises
    ------
    UserError
        If the file exists, unless forced.
    """
    if path.exists() and not force:
        raise UserError(f"{path} exists: choose another file, or --force to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fabtune-") as scratch:
        whole = Path(scratch) / "whole"
        save_file({name: np.ascontiguousarray(one) for name, one in tensors.items()}, whole, dict(metadata))
        os.replace(whole, path)


def load_saved(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Tensors and metadata as `save_state` wrote them."""
    try:
        with safe_open(path, "numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118 - no dict
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is no safetensors file, or damaged: {_line(error)}") from error


def _line(error: Exception) -> str:
    """An exception's first line: PyTorch's go on for pages."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
