"""Packets by hand."""

import numpy as np

from fabtune.golden.block import last_flags, packets_of


def test_flags_and_bounds_are_inverse():
    assert last_flags([2, 1, 3])[:, 0].tolist() == [0, 1, 1, 0, 0, 1]
    assert packets_of(last_flags([2, 1, 3])) == [(0, 2), (2, 3), (3, 6)]


def test_words_behind_the_last_flag_belong_to_no_packet():
    assert packets_of(np.array([[0], [1], [0], [0]])) == [(0, 2)]
    assert packets_of(np.zeros((3, 1), np.int64)) == []
