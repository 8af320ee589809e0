"""Export of a tuned network: a state dict, a program of `torch.export`, or integers in an NPZ file."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import UserError
from ...files import whole
from ...fixed import Q4_12, Q8_16
from ...models.checkpoint import save_state
from ...models.names import unused
from ...models.text import text_of
from .network import TunedNetwork
from .onnx_file import need_onnx, save_onnx

PROGRAM = ".pt2"
"""Suffix of a program of `torch.export`."""
SUFFIXES = {
    "pytorch": (".safetensors", ".pt", ".pth", PROGRAM),
    "onnx": (".onnx",),
    "npz": (".npz",),
}
"""Suffixes of the files of each kind."""
_OF_NPZ = {"formats", "network", "file", "allow_pickle"}
"""Reserved names of an NPZ file: other entries, and arguments of the function that writes it."""
SUM_BITS = 32
"""Bits of a tuned last layer's weights and biases: no sum is clipped."""


def refuse_kind(kind: str, path: Path) -> None:
    """Refuse a file for an export of a kind, before any work.

    Raises
    ------
    UserError
        If the suffix does not fit the kind, or a package is missing.
    """
    if path.suffix not in SUFFIXES[kind]:
        raise UserError(f"{path}: a file of --to {kind} ends in {', '.join(SUFFIXES[kind])}")
    if kind == "onnx":
        need_onnx()


def export(tuned: TunedNetwork, kind: str, path: Path) -> None:
    """Write a file, replacing an older one; `refuse_kind` is called before.

    Raises
    ------
    UserError
        If a state dict cannot hold the network, or an NPZ file is asked for a network of floats.
    """
    if kind == "onnx":
        save_onnx(tuned, path)
    elif kind == "npz":
        arrays: dict[str, Any] = integers_of(tuned)
        with whole(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
    elif path.suffix == PROGRAM:
        _save_program(tuned, path)
    elif path.suffix == ".safetensors":
        save_state(path, tuned.tensors(), {}, force=True)
    else:
        state = {name: torch.from_numpy(np.array(values)) for name, values in tuned.tensors().items()}
        with whole(path) as temporary:
            torch.save(state, temporary)


def program_of(tuned: TunedNetwork) -> torch.export.ExportedProgram:
    """Program of the whole network for any batch, which PyTorch runs without fabtune."""
    sample = torch.zeros(2, *tuned.network.input_shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about PyTorch's own code
        return torch.export.export(
            tuned.module(), (sample,), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=False
        )


def _save_program(tuned: TunedNetwork, path: Path) -> None:
    program = program_of(tuned)
    with whole(path) as temporary, temporary.open("wb") as file:
        torch.export.save(program, file)


def integers_of(tuned: TunedNetwork) -> dict[str, NDArray[np.generic]]:
    """Integers of all parameters by the user's names, with ``formats`` and ``network`` as text.

    Adapters are not merged. A tuned last layer has 32 bits, 12 of them fractional.

    Raises
    ------
    UserError
        If the values are floats.
    """
    if not tuned.integers:
        raise UserError("a run of --engine float has no integers: export it to pytorch or onnx")
    arrays: dict[str, NDArray[np.generic]] = {}
    formats = {"activations": str(Q8_16)}

    def key(name: str) -> str:
        return unused(name, _OF_NPZ | arrays.keys())

    last = len(tuned.parameters) - 1
    for number, (stage, folded) in enumerate(zip(tuned.stages, tuned.parameters, strict=True)):
        wide = number == last and tuned.tuned_layer is not None
        for name, values in ((stage.weight_name, stage.given(folded.weight)), (stage.bias_name, folded.bias)):
            entry = key(name)
            arrays[entry] = np.rint(values * 2**Q4_12.fraction).astype(np.int32 if wide else np.int16)
            formats[entry] = f"Q{SUM_BITS - Q4_12.fraction}.{Q4_12.fraction}" if wide else str(Q4_12)
    for adapter in tuned.adapters:
        for name in "ab":
            entry = key(f"{tuned.stages[adapter.stage].title}.lora_{name}")
            arrays[entry], formats[entry] = Q4_12.from_float(getattr(adapter, name)).astype(np.int16), str(Q4_12)
    return {**arrays, "formats": np.array(json.dumps(formats)), "network": np.array(text_of(tuned.network))}


def how_to_load(kind: str, path: Path) -> str:
    """Python expression that loads a file without fabtune."""
    if kind == "onnx":
        return f'onnxruntime.InferenceSession("{path}")'
    if kind == "npz":
        return f'numpy.load("{path}")'
    if path.suffix == PROGRAM:
        return f'torch.export.load("{path}").module()'
    loaded = f'safetensors.torch.load_file("{path}")' if path.suffix == ".safetensors" else f'torch.load("{path}")'
    return f"model.load_state_dict({loaded})"
