"""Reader of IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped.

An IDX file is two zero bytes, the type of a value (8 for uint8, the only one read here), the number of dimensions, each
dimension as four bytes, big end first, and then the values, the last dimension fastest. Source: the MNIST page, "The
IDX file format".
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import closing
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .archive import DEFLATE
from .dataset import Samples

_UINT8 = 8
_LIMIT = 1 << 30
"""Largest size in bytes: 20 times MNIST. A header can declare 2**64, and a gzip file of 1 MB can expand to 1 GB."""


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read one file of uint8 values.

    Parameters
    ----------
    path : Path
        Gzip is recognised by the content, not by the name, as browsers may unpack a file without renaming it.
    dimensions : int
        Required dimensions: 3 for images (n, height, width), 1 for labels (n,).

    Returns
    -------
    array of uint8

    Raises
    ------
    UserError
        If the file cannot be read, or does not match its header exactly.
    """
    try:
        with path.open("rb") as raw, closing(_unpacked(raw)) as file:
            return _parse(file, path, dimensions)
    except EOFError:
        raise UserError(f"{path}: the gzip file is truncated; download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}: the gzip file is corrupt ({error}); download it again") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def read_pair(images: Path, labels: Path) -> Samples:
    """Read images (n, 1, height, width) and their labels from two files."""
    pixels, classes = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(classes):
        raise UserError(f"{images} has {len(pixels)} images but {labels} has {len(classes)} labels")
    return Samples(pixels[:, None], classes.astype(np.int64))


def _unpacked(raw: BufferedReader) -> IO[bytes]:
    packed = raw.peek(2)[:2] == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw


def _parse(file: IO[bytes], path: Path, dimensions: int) -> NDArray[np.uint8]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise UserError(
            f"{path}: not an IDX file, which starts with two zero bytes (found {magic.hex(' ') or 'nothing'})"
        )
    if magic[2] != _UINT8:
        raise UserError(f"{path}: values of IDX type 0x{magic[2]:02x}, but only 0x08 (uint8) is read")
    if magic[3] != dimensions:
        raise UserError(
            f"{path}: {magic[3]} dimensions instead of {dimensions} "
            f"({'images' if dimensions == 3 else 'labels'} expected; are images and labels mixed up?)"
        )
    header = file.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise UserError(f"{path}: truncated within the header")
    shape = tuple(int(side) for side in np.frombuffer(header, ">u4"))
    expected = prod(shape)
    if expected > _LIMIT:
        raise UserError(f"{path}: the header declares {expected} values {shape}; at most {_LIMIT} are read")
    # a buffered file makes room for all that it is asked for
    most = (path.stat().st_size + 1) * (DEFLATE if isinstance(file, gzip.GzipFile) else 1)
    if expected > most:
        raise UserError(f"{path}: the header declares {expected} values {shape}, the file has at most {most}")
    # one byte more than expected: detects a longer file, and makes gzip check its CRC
    values = file.read(expected + 1)
    if len(values) != expected:
        found = f"only {len(values)}" if len(values) < expected else "more"
        raise UserError(f"{path}: the header declares {expected} values {shape}, the file has {found}")
    return np.frombuffer(values, np.uint8).reshape(shape).copy()
