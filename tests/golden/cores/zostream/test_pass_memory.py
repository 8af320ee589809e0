"""Passes of a step: complete sentences in order, as many as fit."""

import pytest

from fabtune.golden.cores.zostream.pass_memory import pass_memory, passes_of


@pytest.mark.parametrize(
    ("lengths", "capacity", "passes"),
    [
        ([4], 8, [range(1)]),
        ([4, 1], 8, [range(1), range(1, 2)]),
        ([3, 1, 4, 4, 1], 9, [range(2), range(2, 3), range(3, 4), range(4, 5)]),
        ([1] * 7, 7, [range(3), range(3, 6), range(6, 7)]),
        ([5, 5, 5], 20, [range(2), range(2, 3)]),
    ],
)
def test_whole_sentences_in_order(lengths, capacity, passes):
    assert passes_of(lengths, capacity) == passes


def test_an_entry_is_the_numbers_of_two_beats_tokens_and_a_label():
    shape = pass_memory(128, 40)
    assert (shape.depth, shape.width) == (128, 2 * 36 + 8 + 8)
