"""Image tasks: scikit-learn's digits, and MNIST and Fashion-MNIST from their four IDX files, plain or gzipped.

An IDX file has two zero bytes, the type of a value (only 8, uint8, is read here), the number of dimensions, each
dimension in four bytes, big-endian, and the values, the last dimension fastest. Source: the MNIST page, "The IDX file
format".
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
from sklearn.datasets import load_digits

from ..errors import UserError
from .dataset import Samples, Task
from .files import find
from .npz import DEFLATE

CLASSES = 10
TUNE = 1024
"""Tuning images out of the 10,000 test images; the others are the test. InstantFT, section 5.1, tunes on 1,024 random
test images and does not say on which it tests."""
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def mnist(name: str, data_dir: Path | None, seed: int) -> Task:
    """Task: pre-train on the training images, tune on 1,024 random test images, test on the others; no drift.

    `name`, "mnist" or "fashion-mnist", is also the folder in `data_dir`, as both have the same file names.
    """
    paths = find(name, data_dir, name, FILES, (".gz", ""))
    other = {"mnist": "fashion-mnist", "fashion-mnist": "mnist"}[name]
    if paths[0].resolve().parent.name == other:
        raise UserError(f"--data-dir {data_dir} has {other}, not {name}: same file names, other images")
    train, rest = (_images(images, labels) for images, labels in (paths[:2], paths[2:]))
    if len(rest) <= TUNE:
        raise UserError(f"{paths[2]}: {len(rest)} images, but {TUNE} are tuned on and the test needs others")
    order = np.random.default_rng(seed).permutation(len(rest))
    return Task(name, train, rest[order[:TUNE]], rest[order[TUNE:]])


def _images(images: Path, labels: Path) -> Samples:
    samples = read_pair(images, labels)
    if samples.shape != (1, 28, 28):
        raise UserError(f"{images}: images of {samples.shape[1]} x {samples.shape[2]} pixels instead of 28 x 28")
    return samples.check(str(labels), CLASSES)


PRETRAINED, TUNED = 800, 500
"""Numbers of digits; the remaining 497 of the 1,797 are the test."""


def digits(seed: int) -> Task:
    """Task: the 1,797 digits in random order, split in three, without drift.

    Images are (n, 1, 8, 8); their 17 grey levels 0 to 16 are scaled to 0 to 255. Source: the test part of "Optical
    Recognition of Handwritten Digits", UCI, from scikit-learn.
    """
    source = load_digits()
    order = np.random.default_rng(seed).permutation(len(source.target))
    pixels = np.rint(source.images[order, None] * (255 / 16)).astype(np.uint8)
    samples = Samples(pixels, source.target[order].astype(np.int64))
    held_out = PRETRAINED + TUNED
    return Task("digits", samples[:PRETRAINED], samples[PRETRAINED:held_out], samples[held_out:])


_UINT8 = 8
_LIMIT = 1 << 30
"""Largest size in bytes: 20 times MNIST. A header can declare 2**64, and a gzip file of 1 MB can expand to 1 GB."""


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Array of uint8 from one IDX file of 3 dimensions, images (n, height, width), or 1, labels (n,).

    Gzip is recognised by content, as browsers may unpack a file without renaming it. Raises `UserError` if the file
    cannot be read, or does not match its header exactly.
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
    """Images (n, 1, height, width) and labels from two files.

    Raises `UserError` like `read_idx`, or if both files differ in length.
    """
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
    # a buffered read allocates the requested size
    most = (path.stat().st_size + 1) * (DEFLATE if isinstance(file, gzip.GzipFile) else 1)
    if expected > most:
        raise UserError(f"{path}: the header declares {expected} values {shape}, the file has at most {most}")
    # one byte more than expected: detects a longer file, and makes gzip check its CRC
    values = file.read(expected + 1)
    if len(values) != expected:
        size = f"only {len(values)}" if len(values) < expected else "more"
        raise UserError(f"{path}: the header declares {expected} values {shape}, the file has {size}")
    return np.frombuffer(values, np.uint8).reshape(shape).copy()
