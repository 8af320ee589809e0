"""Task from an untrusted NPZ file: no pickles, no more memory than declared.

Keys, as ``np.savez(file, x_tune=..., y_tune=..., ...)`` writes them:

=======================  ==========================================================================
x_tune, x_test           (n, features), (n, channels, height, width) or (n, channels, length), read
                         as (n, channels, 1, length); uint8 are pixels with the value byte / 255;
                         floats of any width are converted to float32
y_tune, y_test           (n,) integers, the classes counted from 0
x_train, y_train         samples to pre-train on; may be omitted if a checkpoint is given
=======================  ==========================================================================
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..errors import UserError
from .dataset import Inputs, Samples, Task


def npz(path: Path, classes: int | None = None, scale: float = 1.0) -> Task:
    """Task of an NPZ file, with empty `pretrain` if the file has none.

    `classes` is the network's number of classes, if known; `scale` is the factor of float samples, see
    `Samples.scaled`.
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
    """Samples of an NPZ file with labels 0: its array x_test, or else x_tune or x_train.

    `scale` is the factor of float samples, see `Samples.scaled`. Raises `UserError` if the file has no such array, or
    an array of another kind.
    """
    parts = ("test", "tune", "train")
    arrays = read_arrays(path, (), (f"x_{part}" for part in parts))
    part = next((part for part in parts if f"x_{part}" in arrays), None)
    if part is None:
        raise UserError(f"{path}: no array x_test, x_tune or x_train")
    inputs = arrays[f"x_{part}"]
    samples = _samples({f"x_{part}": inputs, f"y_{part}": np.zeros(inputs.shape[:1], np.int64)}, part, path, None)
    return samples.scaled(scale, str(path))


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
    # values beyond float32 become infinity, reported by `Samples.check`
    with np.errstate(over="ignore"):
        return inputs.astype(np.float32)


LIMIT = 4 << 30
"""Largest unpacked size in bytes of all arrays from one archive: 20 times MNIST in float32."""

DEFLATE = 1032
"""Largest number of bytes from one byte of gzip or of an NPZ."""

Arrays = dict[str, NDArray[Any]]


def names_of(path: Path) -> list[str]:
    """Names of all arrays of an archive already read by `read_arrays`."""
    with zipfile.ZipFile(path) as archive:
        return [info.filename.removesuffix(".npy") for info in archive.infolist()]


def read_arrays(path: Path, required: Iterable[str], optional: Iterable[str] = ()) -> Arrays:
    """Named arrays of an archive, in native byte order; others are not read.

    Raises `UserError` if the file is not an NPZ, is damaged, lacks a required key, contains objects, or unpacks to more
    than `LIMIT`.
    """
    required = list(required)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            missing = [key for key in required if key not in members]
            if missing:
                raise UserError(f"{path}: no array {', '.join(missing)}; it has {', '.join(members) or 'nothing'}")
            wanted = {key: members[key] for key in (*required, *optional) if key in members}
            size = sum(info.file_size for info in wanted.values())
            if size > LIMIT:
                raise UserError(f"{path}: unpacks to {size} bytes, more than the limit of {LIMIT}")
            # NumPy allocates the declared size; it writes no other compression than deflate
            if size > (path.stat().st_size + 1) * DEFLATE:
                raise UserError(f"{path}: damaged (its {path.stat().st_size} bytes cannot hold {size})")
            return {key: _array(archive, info, f"{path}: {key}") for key, info in wanted.items()}
    except UserError:
        raise
    except zipfile.BadZipFile as error:
        raise UserError(f"{path}: not an NPZ file, or damaged ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except Exception as error:
        # malformed files raise many kinds of errors in the parsers: zlib, struct, ast, tokenize, unicode, ...
        raise UserError(f"{path}: damaged ({type(error).__name__}: {' '.join(str(error).split())})") from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> NDArray[Any]:
    with archive.open(info) as file:
        shape, dtype = _header(file, where)
        present = info.file_size - file.tell()
    if dtype.hasobject:
        raise UserError(f"{where} has Python objects, which need a pickle; save numbers instead")
    # NumPy allocates the size in the header before it reads; zipfile never yields more than `file_size`
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != present:
        raise UserError(f"{where}: the header says {dtype} {shape}, but {present} bytes follow")
    with archive.open(info) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        if file.read(1):  # also makes zipfile check the CRC
            raise UserError(f"{where}: bytes after the array")
    return array.astype(dtype.newbyteorder("="), copy=False)


def _header(file: IO[bytes], where: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise UserError(f"{where}: NPY version {version[0]}.{version[1]}, which no array of numbers needs")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype
