"""Task from a user's NPZ file.

Keys, as ``np.savez(file, x_tune=..., y_tune=..., ...)`` writes them:

=======================  ==========================================================================
x_tune, x_test           (n, features), (n, channels, height, width) or (n, channels, length), which
                         is (n, channels, 1, length); uint8 are pixels with the value byte / 255;
                         floats of any width are converted to float32
y_tune, y_test           (n,) integers, the classes counted from 0
x_train, y_train         samples to pre-train on; may be omitted if a checkpoint is given
=======================  ==========================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .archive import Arrays, read_arrays
from .dataset import Inputs, Samples, Task


def npz(path: Path, classes: int | None = None, scale: float = 1.0) -> Task:
    """Read a task from an NPZ file.

    Parameters
    ----------
    path : Path
    classes : int, optional
        Number of classes of the network, if known.
    scale : float
        Factor by which float samples are multiplied, see `Samples.scaled`.

    Returns
    -------
    Task
        With empty `pretrain` if the file has no such samples.
    """
    arrays = read_arrays(path, ("x_tune", "y_tune", "x_test", "y_test"), ("x_train", "y_train"))
    if ("x_train" in arrays) != ("y_train" in arrays):
        raise UserError(f"{path}: x_train and y_train go together, but only one of them is there")
    tune, test = (_samples(arrays, part, path, classes) for part in ("tune", "test"))
    train = _samples(arrays, "train", path, classes) if "x_train" in arrays else tune[:0]
    for part, samples in (("test", test), ("train", train)):
        if samples.shape != tune.shape or samples.inputs.dtype != tune.inputs.dtype:
            raise UserError(
                f"{path}: x_{part} has samples {samples.inputs.dtype} {samples.shape}, "
                f"but x_tune {tune.inputs.dtype} {tune.shape}"
            )
    return Task(f"npz:{path}", train, tune, test).scaled(scale)


def inputs_of(path: Path, scale: float = 1.0) -> Samples:
    """Read samples without labels from an NPZ file: its array x_test, or else x_tune or x_train.

    Parameters
    ----------
    path : Path
    scale : float
        Factor by which float samples are multiplied, see `Samples.scaled`.

    Returns
    -------
    Samples
        Their labels are 0.

    Raises
    ------
    UserError
        If there is no such array, or it does not hold samples.
    """
    parts = ("test", "tune", "train")
    arrays = read_arrays(path, (), (f"x_{part}" for part in parts))
    part = next((part for part in parts if f"x_{part}" in arrays), None)
    if part is None:
        raise UserError(f"{path}: no array x_test, x_tune or x_train")
    inputs = arrays[f"x_{part}"]
    found = _samples({f"x_{part}": inputs, f"y_{part}": np.zeros(inputs.shape[:1], np.int64)}, part, path, None)
    return found.scaled(scale, str(path))


def _samples(arrays: Arrays, part: str, path: Path, classes: int | None) -> Samples:
    inputs, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
    if inputs.ndim not in (2, 3, 4) or 0 in inputs.shape[1:]:
        raise UserError(
            f"{path}: x_{part} is {inputs.shape}, not (n, features), (n, channels, length) or "
            "(n, channels, height, width)"
        )
    if inputs.ndim == 3:
        inputs = inputs[:, :, None]
    if inputs.dtype != np.uint8 and inputs.dtype.kind != "f":
        raise UserError(f"{path}: x_{part} is {inputs.dtype}; save uint8 pixels or float values")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise UserError(f"{path}: y_{part} is {labels.dtype} {labels.shape}, not integers (n,)")
    if labels.dtype.kind == "u" and labels.size and int(labels.max()) > np.iinfo(np.int64).max:
        raise UserError(f"{path}: y_{part} has a label {labels.max()}; classes are counted from 0")
    values: Inputs = inputs if inputs.dtype == np.uint8 else _float32(inputs)
    return Samples(values, labels.astype(np.int64)).check(f"{path}: x_{part}, y_{part}", classes)


def _float32(inputs: NDArray[np.floating[Any]]) -> Inputs:
    # values beyond float32 become infinity, which `Samples.check` reports
    with np.errstate(over="ignore"):
        return inputs.astype(np.float32)
