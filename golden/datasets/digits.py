"""Task on scikit-learn's digits, which need no files."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from .dataset import Samples, Task

PRETRAIN, TUNE = 800, 500
"""Number of samples; the remaining 497 of the 1,797 are the test."""


def digits(seed: int) -> Task:
    """Load the 1,797 images in random order, split in three, without drift.

    Images are (n, 1, 8, 8); their 17 grey levels 0 to 16 are scaled to 0 to 255. Source: the test part of "Optical
    Recognition of Handwritten Digits", UCI, from scikit-learn.
    """
    source = load_digits()
    order = np.random.default_rng(seed).permutation(len(source.target))
    pixels = np.rint(source.images[order, None] * (255 / 16)).astype(np.uint8)
    samples = Samples(pixels, source.target[order].astype(np.int64))
    return Task("digits", samples[:PRETRAIN], samples[PRETRAIN : PRETRAIN + TUNE], samples[PRETRAIN + TUNE :])
