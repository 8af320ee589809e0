"""Reader of untrusted NPZ archives: no pickles, and no more memory than the archive declares."""

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

LIMIT = 4 << 30
"""Largest size in bytes of all arrays read from one archive, unpacked: 20 times MNIST in float32."""

DEFLATE = 1032
"""Most bytes that one byte of gzip or of an NPZ unpacks to."""

Arrays = dict[str, NDArray[Any]]


def names_of(path: Path) -> list[str]:
    """Names of all arrays of an archive that `read_arrays` has read."""
    with zipfile.ZipFile(path) as archive:
        return [info.filename.removesuffix(".npy") for info in archive.infolist()]


def read_arrays(path: Path, required: Iterable[str], optional: Iterable[str] = ()) -> Arrays:
    """Read named arrays; others in the archive are not read.

    Parameters
    ----------
    path : Path
    required, optional : iterable of str
        Keys as given to ``np.savez``.

    Returns
    -------
    dict of str to array
        In the machine's order of bytes.

    Raises
    ------
    UserError
        If the file is not an NPZ, is damaged, lacks a required key, contains objects, or unpacks to more than `LIMIT`.
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
            # NumPy makes room for what is declared; other compressions than deflate are not NumPy's
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
