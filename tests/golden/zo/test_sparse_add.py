"""Corrections compared with PyTorch's `index_add_` and a word-by-word model; refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.block import last_flags
from fabtune.golden.errors import UserError
from fabtune.golden.zo.sparse_add import SparseAddSpec

SPEC = SparseAddSpec(lanes=8, index_bits=6)
NOTHING = np.zeros(0, np.int64)

packet = st.tuples(
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 63), st.integers(-32768, 32767)), min_size=1, max_size=30),
)


def words(packets, rng, spec=SPEC):
    """Streams of packets (beats, [(index, value), ...]) of random weights."""
    beats = [beats for beats, _ in packets]
    entries = np.array([entry for _, entries in packets for entry in entries], np.int64)
    return {
        "i": {"weight": rng.integers(-32768, 32768, (sum(beats), spec.lanes)), "last": last_flags(beats)},
        "sparse": {
            "index": entries[:, :1],
            "value": entries[:, 1:],
            "last": last_flags([len(entries) for _, entries in packets]),
        },
    }


@given(st.lists(packet, min_size=1, max_size=5), st.integers(0, 2**32))
def test_packets_word_by_word(packets, seed):
    inputs = words(packets, np.random.default_rng(seed))
    expected, errors, slots, start = inputs["i"]["weight"].copy(), [], 0, 0
    for beats, entries in packets:
        top, place, dropped, taken = -1, 0, 0, [0] * beats
        for index, value in entries:
            if index > top:
                place = min(index // 8, beats - 1)
            if index > top and index < 8 * beats:
                row, lane = start + index // 8, index % 8
                expected[row, lane] = min(max(expected[row, lane] + value, -32768), 32767)
            else:
                dropped += 1
            top = max(top, index)
            taken[place] += 1
        errors += [0] * (beats - 1) + [int(dropped > 0)]
        slots += sum(max(count, 1) for count in taken)
        start += beats
    result = SPEC.run(inputs, start)["o"]
    assert (result["weight"] == expected).all()
    assert result["error"][:, 0].tolist() == errors
    assert (result["last"] == inputs["i"]["last"]).all()
    assert SPEC.slots(inputs) == slots
    assert SPEC.cycles(inputs) == slots + 6


@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
@pytest.mark.parametrize("rate", [0, 0.001, 0.1, 1])
def test_it_is_index_add(lanes, rate):
    rng = np.random.default_rng(lanes)
    spec = SparseAddSpec(lanes=lanes)
    weights = rng.integers(-32768, 32768, 100 * lanes)
    indices = np.flatnonzero(rng.random(len(weights)) < rate)
    values = rng.integers(-32768, 32768, len(indices))
    dense = {"weight": weights.reshape(-1, lanes), "last": last_flags([100])}
    result = spec.run({"i": dense, "sparse": spec.sparse_words(indices, values, len(weights))}, 100)["o"]
    theirs = torch.from_numpy(weights).double().index_add_(0, torch.from_numpy(indices), torch.tensor(values).double())
    assert (result["weight"].ravel() == theirs.clamp(-32768, 32767).numpy()).all()
    assert not result["error"].any()


def test_a_tag_travels_and_a_packet_that_is_not_whole_waits():
    spec = SparseAddSpec(lanes=8, tag=4)
    inputs = words([(2, [(0, 1)]), (1, [(7, 1)])], np.random.default_rng(0), spec)
    inputs["i"]["tag"] = np.array([[3], [9], [15]])
    assert spec.run(inputs, 3)["o"]["tag"].tolist() == [[3], [9], [15]]
    inputs["sparse"]["last"][1] = 0
    assert spec.run(inputs, 3)["o"]["tag"].tolist() == [[3], [9]]


def test_no_corrections_are_one_word_that_adds_nothing():
    found = SPEC.sparse_words(NOTHING, NOTHING, 5)
    assert {name: column.tolist() for name, column in found.items()} == {"index": [[0]], "value": [[0]], "last": [[1]]}


@pytest.mark.parametrize(
    ("indices", "values", "message"),
    [
        ([3, 5, 5], [1, 1, 1], "correction 2 has index 5, not above the one before, 5"),
        ([9, 2], [1, 1], "correction 1 has index 2, not above the one before, 9"),
        ([-1, 2], [1, 1], "0 to 39; found -1 to 2"),
        ([1, 40], [1, 1], "0 to 39; found 1 to 40"),
        ([1], [32768], "Q4.12 does not go from 32768"),
        ([1, 2], [1], "not two vectors of equal length"),
    ],
)
def test_wrong_corrections_are_refused(indices, values, message):
    with pytest.raises(UserError, match=message):
        SPEC.sparse_words(np.array(indices), np.array(values), 40)


def test_an_index_is_within_its_bits():
    with pytest.raises(UserError, match="0 to 63; found 64 to 64"):
        SPEC.sparse_words(np.array([64]), np.array([1]), 100)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 4}, "lanes = 4 is not 8, 16, 32 or 64"),
        ({"lanes": 24}, "lanes = 24"),
        ({"index_bits": 5}, "index_bits = 5 is not in 6 to 32"),
        ({"index_bits": 33}, "index_bits = 33"),
        ({"queue": 5}, "queue = 5"),
        ({"tag": 33}, "tag = 33"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        SparseAddSpec(**changes)
