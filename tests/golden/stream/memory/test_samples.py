"""Rows of samples in DRAM, written and read by hand."""

import numpy as np

from fabtune.golden.stream.memory.samples import ROW_BEATS, token_beats, token_rows, tokens_of


def test_values_are_three_bytes():
    image = token_rows(np.array([[1, -2, 0x7FFFFF], [-(1 << 23), 0, 5]]))
    assert len(image) == 2 * 96
    assert image[:9].tolist() == [1, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]
    assert image[96:105].tolist() == [0, 0, 0x80, 0, 0, 0, 5, 0, 0]
    assert not image[9:96].any()


def test_back():
    values = np.random.default_rng(0).integers(-(1 << 23), 1 << 23, (3, 70))
    image = token_rows(values)
    assert len(image) == 3 * token_beats(70) * 16 == 3 * 3 * ROW_BEATS * 16
    found = tokens_of(image, 70)
    assert found.shape == (3, 96)
    assert np.array_equal(found[:, :70], values)
    assert not found[:, 70:].any()
