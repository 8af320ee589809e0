"""Samples: conversion, slices, and refusals."""

import numpy as np
import pytest

from fabtune.golden.datasets.dataset import Samples
from fabtune.golden.errors import UserError


def test_pixels_are_parts_of_255():
    samples = Samples(np.array([[0, 51, 255]], np.uint8), np.array([0]))
    assert samples.values().dtype == np.float32
    np.testing.assert_array_equal(samples.values(), np.float32([[0, 0.2, 1]]))
    assert samples.shape == (3,)


def test_parts_by_slice_and_by_index():
    samples = Samples(np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(4))
    assert samples[1:3].labels.tolist() == [1, 2]
    assert samples[np.array([3, 0])].inputs.tolist() == [[6, 7], [0, 1]]


@pytest.mark.parametrize(
    ("inputs", "labels", "says"),
    [
        (np.zeros((2, 3)), [0], "here: 2 inputs but 1 labels"),
        (np.zeros((0, 3)), [], "here: no samples"),
        ([[0.0], [np.inf]], [0, 0], "sample 1 has NaN or infinity"),
        ([[0.0], [0.0]], [0, 3], "label 3 of sample 1 is outside 0 to 2"),
        ([[0.0], [0.0]], [-1, 3], "label -1 of sample 0 is outside 0 to 2"),
    ],
)
def test_unusable_samples_are_refused(inputs, labels, says):
    samples = Samples(np.asarray(inputs, np.float32), np.asarray(labels, np.int64))
    with pytest.raises(UserError, match=says):
        samples.check("here", 3)


def test_valid_samples_are_returned():
    samples = Samples(np.zeros((1, 2), np.uint8), np.array([9]))
    assert samples.check("here") is samples
