"""Rows of deltas: order, segments of a cut, folding, and words to wait for before a pass."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.zo.mapping import PerturbationMapping
from fabtune.golden.zo.rows import Deadline, RowRange

FORWARD = Mapping.of(network_from("1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"), 16, 2)


def test_rows_are_those_of_the_mapping():
    mapping = PerturbationMapping(FORWARD)
    rows = mapping.delta_rows
    assert len(rows) == rows.words == mapping.words
    assert rows.whole.numbers.tolist() == list(range(mapping.words))
    assert len(rows.whole.biases) == len(rows.bias_groups)
    assert len(rows.whole.weights) == FORWARD.weight_words * rows.weight_rows
    firsts = [groups.first for groups in rows.bias_groups]
    assert firsts == np.cumsum([0, *(groups.size for groups in rows.bias_groups)])[:-1].tolist()
    assert rows.groups == FORWARD.groups
    assert max(groups.size for groups in rows.bias_groups) <= rows.most_groups


def test_a_weight_that_stands_twice_is_refused():
    with pytest.raises(UserError, match="would get two perturbations"):
        PerturbationMapping(replace(FORWARD, pairs="frozen"))


def test_parts_of_each_cut_are_all_rows():
    mapping = PerturbationMapping(FORWARD)
    rows = mapping.delta_rows
    assert len(rows.cuts) == len(FORWARD.stages) - 1
    for cut, parts in enumerate(rows.cuts, start=1):
        assert parts == tuple(part.row_range for part in mapping.parts(cut))
        assert sorted(number for part in parts for number in part.numbers) == list(range(len(rows)))
    # a segment has the same rows as the whole
    assert mapping.parts(1)[1].delta_rows == rows


def test_a_fold_has_rows_for_several_words():
    rows = PerturbationMapping(FORWARD, period=15).delta_rows
    assert (len(rows), rows.period) == (15, 15)
    assert rows.words == PerturbationMapping(FORWARD).words > 15
    assert rows.whole.words_before_pass(2) == rows.whole.words_before_pass(4) == 15


def test_a_pass_waits_for_the_most_urgent_word():
    rows = RowRange(range(2), range(4, 8), (Deadline(3, 0), Deadline(6, 8)))
    assert rows.numbers.tolist() == [0, 1, 4, 5, 6, 7]
    # at 4 cycles a word, 2 words are produced meanwhile; at 2 cycles 4
    assert [rows.words_before_pass(cycles) for cycles in (2, 4, 8)] == [3, 4, 5]
