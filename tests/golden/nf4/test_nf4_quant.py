"""Blocks of a stream compared with `codec.quantise`, and their cycles."""

import numpy as np
import pytest

from fabtune.golden.block import last_flags
from fabtune.golden.errors import UserError
from fabtune.golden.nf4.nf4_quant import Nf4QuantSpec


def stream(*blocks):
    return {"i": {"value": np.concatenate(blocks)[:, None], "last": last_flags([len(block) for block in blocks])}}


def test_blocks_follow_one_another():
    blocks = [np.array(block) for block in ([-65536, 0, 20000, 32768], [0, 0, 0], [-(1 << 23), 5], [1], [-1])]
    result = Nf4QuantSpec().run(stream(*blocks), 100)["o"]
    assert result["code"][:, 0].tolist() == [0, 7, 11, 12, 0, 0, 0, 0, 7, 15, 0]
    assert result["scale"][:, 0].tolist() == [65536] * 4 + [0] * 3 + [(1 << 23) - 1] * 2 + [1, 1]
    assert result["last"][:, 0].tolist() == [0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1]


def test_of_two_values_a_word_a_last_one_may_not_count():
    spec = Nf4QuantSpec(values=2)
    words = {"value": np.array([[-65536, 0], [20000, 32768], [40000, 1 << 22]]), "last": last_flags([2, 1])}
    result = spec.run({"i": words | {"single": np.array([[0], [0], [1]])}}, 100)["o"]
    assert result["code"].tolist() == [[0, 7], [11, 12], [15, 15]]
    assert result["scale"][:, 0].tolist() == [65536, 65536, 40000]
    assert result["single"][:, 0].tolist() == [0, 0, 1]


def test_a_block_that_has_not_ended_gives_nothing():
    inputs = stream(np.array([1, 2]), np.array([3, 4]))
    inputs["i"]["last"][-1] = 0
    assert len(Nf4QuantSpec().run(inputs, 100)["o"]["code"]) == 2


def test_a_block_too_long_is_refused():
    with pytest.raises(UserError, match=r"a block of 5 values; the longest here is 4"):
        Nf4QuantSpec(length=4).run(stream(np.arange(5)), 100)


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 18, 25, 43, 107, 196, 235, 400])
def test_in_the_steady_state_a_block_takes_as_many_cycles_as_values(length):
    spec = Nf4QuantSpec(length=length)
    took = spec.cycles([length] * 40)
    assert took - spec.cycles([length] * 39) == max(length, spec.turn)
    # the memory never fills: no cycle is lost between first and last value
    assert took == length + spec.preparation + 39 * max(length, spec.turn) + length


def test_a_record_takes_little_more_cycles_than_values():
    record = [*[196] * 6, *[25] * 16, 120, 84, 10]
    spec = Nf4QuantSpec()
    assert spec.cycles([10]) == 10 + spec.preparation + 10
    assert spec.cycles(3 * record) - spec.cycles(2 * record) == sum(record) + 9
    # blocks of 25 are 13 words, bound by the threshold computation
    pairs = Nf4QuantSpec(values=2)
    assert pairs.cycles(3 * record) - pairs.cycles(2 * record) == 962 + 3
    # a long block after short ones: its input takes longer than their threshold computation
    assert spec.cycles([1, 100]) == 1 + 100 + spec.preparation + 100


def test_three_values_a_word_are_refused():
    with pytest.raises(UserError, match="values = 3"):
        Nf4QuantSpec(values=3)


@pytest.mark.parametrize("length", [0, 1 << 17])
def test_wrong_parameters_are_refused(length):
    with pytest.raises(UserError, match=f"length = {length}"):
        Nf4QuantSpec(length=length)
