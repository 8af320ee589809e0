"""Checkpoints without code: safetensors, or PyTorch files read with ``weights_only``."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import UserError
from ..files import whole

_PACKED = "torch.float4_e2m1fn_x2"
"""Packed type of two floats a byte: absent before PyTorch 2.8, and never converted."""
_COUNTER = "num_batches_tracked"
"""Batch-norm buffer unused in evaluation, missing in files of PyTorch before 0.4.1."""
_WRAPPERS = {"module.": ", as of nn.DataParallel", "_orig_mod.": ", as of torch.compile"}
"""Name prefixes of wrapped modules, with the wrapper for messages."""
_OF_NUMPY = ("BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64", "C64")
"""safetensors types native to NumPy; ml_dtypes (imported by onnx) adds more."""


def weights_file(reference: Path) -> tuple[Path, str]:
    """Path and name prefix of a reference ``mine.pt:module.``; the prefix is removed from tensor names."""
    name, colon, prefix = reference.name.rpartition(":")
    return (reference, "") if reference.is_file() or not colon else (reference.with_name(name), prefix)


def load_state(reference: Path) -> dict[str, Tensor]:
    """State dict of a `weights_file` reference: ``.safetensors``, any other suffix as written by `torch.save`.

    Raises
    ------
    UserError
        If the file is absent, damaged, or contains anything but dense tensors by name, or if a name lacks the prefix.
    """
    path, prefix = weights_file(reference)
    if not path.is_file():
        raise UserError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    try:
        state = load_file(path) if path.suffix == ".safetensors" else _load_torch(path)
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file, or is damaged: {_line(error)}") from error
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} contains more than tensors, or is damaged, and is refused: save model.state_dict()"
        ) from error
    except OSError:
        raise
    except Exception as error:  # PyTorch's reader raises arbitrary exceptions on damaged files
        raise UserError(f"{path} is not a PyTorch file, or is damaged: {_line(error)}") from error
    if not isinstance(state, dict):
        raise UserError(f"{path} holds a {type(state).__name__}, not tensors by name: save model.state_dict()")
    for name, one in state.items():
        if not isinstance(name, str) or not isinstance(one, Tensor):
            raise UserError(f"{path}: {name!r} is a {type(one).__name__}, not a tensor: save model.state_dict()")
        if one.layout != torch.strided or one.is_quantized or one.is_meta:
            raise UserError(f"{path}: {name} is sparse, quantised or empty: save dense float tensors")
        if str(one.dtype) == _PACKED:
            raise UserError(
                f"{path}: {name} is {one.dtype}, two values in a byte: save float tensors of a byte or more"
            )
    if others := [name for name in state if not name.startswith(prefix)]:
        raise UserError(f"{path}: {others[0]} does not begin with {prefix}, as {reference} says")
    return {name.removeprefix(prefix): one.detach() for name, one in state.items()}


def _load_torch(path: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickle's protocol, which the user cannot change
        return torch.load(path, map_location="cpu", weights_only=True)


def load_into(module: nn.Module, path: Path) -> None:
    """Load a state dict into a module, converting floats to the module's types.

    Raises
    ------
    UserError
        If a tensor is missing, unexpected, of another shape or kind, or not finite; the module is then unchanged.
    """
    state, own = load_state(path), module.state_dict()
    if prefix := _prefix(state, own):
        raise UserError(
            f"{path}: all names begin with {prefix}{_WRAPPERS.get(prefix, '')}, those of the network do not: "
            f"--weights {path}:{prefix} leaves it out"
        )
    for name, mine in own.items():
        if name not in state and name.rpartition(".")[2] == _COUNTER:
            state[name] = mine
        elif name not in state:
            raise UserError(f"{path} lacks {name}, which the network has as {tuple(mine.shape)}")
    for name, tensor in state.items():
        if name not in own:
            raise UserError(f"{path} has {name} of {tuple(tensor.shape)}, which the network has not")
        if tensor.shape != own[name].shape:
            raise UserError(f"{path}: {name} is {tuple(tensor.shape)}, the network's is {tuple(own[name].shape)}")
        if tensor.is_floating_point() != own[name].is_floating_point():
            raise UserError(f"{path}: {name} is {tensor.dtype}, the network's is {own[name].dtype}")
        state[name] = tensor.to(own[name].dtype)
        # checked after the conversion: a float64 may be beyond float32
        if not torch.isfinite(state[name]).all():
            raise UserError(f"{path}: {name} has NaN or infinity in {own[name].dtype}")
    module.load_state_dict(state)


def _prefix(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str:
    """Prefix that all names of a file have before the network's names, or an empty string."""
    first = next(iter(own), "")
    found = (name.removesuffix(first) for name in state if name.endswith(f".{first}") and first not in state)
    return next((prefix for prefix in found if all(name.startswith(prefix) for name in state)), "")


def refuse_existing(path: Path, force: bool) -> None:
    """Raise `UserError` if a file exists and `force` is not set."""
    if path.exists() and not force:
        raise UserError(f"{path} exists: choose another file, or --force to replace it")


def save_state(
    path: Path, tensors: Mapping[str, NDArray[np.generic]], metadata: Mapping[str, str], force: bool
) -> None:
    """Write tensors as safetensors, atomically and deterministically.

    Raises
    ------
    UserError
        If the file exists, unless forced.
    """
    refuse_existing(path, force)
    with whole(path) as made:
        made.write_bytes(_serialised(tensors, metadata))


def _serialised(tensors: Mapping[str, NDArray[np.generic]], metadata: Mapping[str, str]) -> bytes:
    # np.ascontiguousarray would add a dimension to a scalar, such as a batch norm's counter
    plain = save({name: np.array(one, order="C") for name, one in tensors.items()})
    if not metadata:
        return plain
    # safetensors itself writes metadata in random order
    start = 8 + int.from_bytes(plain[:8], "little")
    header = json.dumps({"__metadata__": dict(sorted(metadata.items())), **json.loads(plain[8:start])}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + plain[start:]


def load_saved(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Tensors and metadata of a file written by `save_state`."""
    try:
        with safe_open(path, "numpy") as file:
            names = list(file.keys())
            types = {name: file.get_slice(name).get_dtype() for name in names}
            if foreign := [name for name, dtype in types.items() if dtype not in _OF_NUMPY]:
                kind = types[foreign[0]]
                raise UserError(f"{path}: {foreign[0]} is of type {kind}, which is in no file that fabtune writes")
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a safetensors file, or is damaged: {_line(error)}") from error


def _line(error: Exception) -> str:
    """First sentence of an exception's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).split(". ")[0][:120]
