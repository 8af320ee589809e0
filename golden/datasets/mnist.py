"""Tasks on MNIST and Fashion-MNIST, from their four original files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import UserError
from .dataset import Samples, Task
from .files import find
from .idx import read_pair

CLASSES = 10
TUNE = 1024
"""Tuning images out of the 10,000 test images; the others are the test. InstantFT, section 5.1, tunes on 1,024 random
test images and does not say on which it tests."""
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def mnist(name: str, data_dir: Path | None, seed: int) -> Task:
    """Load the task: pre-train on the training images, tune on 1,024 random test images, test on the others; no drift.

    Parameters
    ----------
    name : str
        "mnist" or "fashion-mnist", also the folder in `data_dir`; the files have the same names in both.
    data_dir : Path or None
    seed : int
        Seed of the choice of the 1,024.
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
