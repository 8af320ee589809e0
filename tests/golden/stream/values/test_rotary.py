"""`rotary` on query and key rows compared with the integer transformer's function; its words and limits."""

import numpy as np
import pytest

from fabtune.golden.block import joined
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.stream.attention import Q6_12, rotated, rotations
from fabtune.golden.stream.instruction import Instruction, Kind, RowAddress
from fabtune.golden.stream.memory.chunks import ValueAddress
from fabtune.golden.stream.values.rotary import RotarySpec, rotary_operation

SPEC = RotarySpec(lanes=16, columns=8, rows=512, wide_rows=64, sums=32, width=32)
LENGTHS, CAPACITY = (2, 5, 1), 20


def words_of(one, queries, keys):
    """Words of an operation on rows of both sides, in read order; and the read rows."""
    fields = rotary_operation(one, CAPACITY, max(LENGTHS), 2 * len(LENGTHS))
    first = np.cumsum([0, *LENGTHS * 2])[:-1]
    sentences = np.tile(np.stack([first, LENGTHS * 2], axis=1), (max(LENGTHS), 1))
    turns = np.concatenate(rotations(np.arange(max(LENGTHS)), one.width), axis=1)
    rows = [row + p for p in range(max(LENGTHS)) for row, length in zip(first, LENGTHS * 2, strict=True) if length > p]
    values = np.concatenate([queries, keys], axis=1)[rows]
    words = {
        "operation": {name: np.array([[value]]) for name, value in fields.items()},
        "sentences": {"first": sentences[:, :1], "length": sentences[:, 1:]},
        "turns": {"plus": turns.reshape(-1, 4)},
        "operands": {"value": values.reshape(-1, SPEC.columns)},
    }
    return words, rows


def expected(values, form, width, counted):
    """Rows rotated by the transformer's function, sentence by sentence."""
    found = []
    for own in np.split(values, np.cumsum(LENGTHS * 2)[:-1]):
        heads = own.reshape(len(own), -1, width).swapaxes(0, 1)
        cosine, sine = rotations(np.arange(len(own)), width)
        found.append(rotated(heads, (cosine, sine), form, counted).swapaxes(0, 1).reshape(len(own), -1))
    return np.concatenate(found)


@pytest.mark.parametrize(("heads", "key_heads", "width"), [(4, 2, 8), (2, 1, 24), (1, 1, 32)])
def test_heads_are_turned_as_the_transformer_turns_them(heads, key_heads, width):
    rng, tokens = np.random.default_rng(1), 2 * sum(LENGTHS)
    queries = rng.integers(Q8_16.minimum, Q8_16.maximum, (tokens, heads * width))
    keys = rng.integers(Q6_12.minimum, Q6_12.maximum, (tokens, key_heads * width))
    places = {"source": RowAddress(False, 3).bits, "second": RowAddress(False, 9).bits}
    one = Instruction(Kind.ATTENTION, rotary=1, heads=heads, key_heads=key_heads, width=width, **places)
    words, rows = words_of(one, queries, keys)
    found, counted = SPEC.run(words, 1 << 20), Narrower()
    turned = [expected(queries, Q8_16, width, counted), expected(keys, Q6_12, width, counted)]
    assert (found["write"]["value"].reshape(tokens, -1) == np.concatenate(turned, axis=1)[rows]).all()
    assert found["done"]["clipped"].tolist() == [[counted.saturations]]
    assert counted.saturations
    # each chunk is written back to its address
    for name in ("wide", "address", "part"):
        assert (found["write"][name] == found["operands_read"][name]).all()
    groups = heads * width // SPEC.columns, key_heads * width // SPEC.columns
    own = [
        (ValueAddress(False, first * CAPACITY), group)
        for first, count in zip((3, 9), groups, strict=True)
        for group in range(count)
    ]
    read = [SPEC.layout.chunk(place, group, row, CAPACITY) for row in rows for place, group in own]
    assert (np.array(read) == np.hstack([found["write"][name] for name in ("wide", "address", "part")])).all()


def test_operations_follow_each_other_and_lack_nothing():
    rng, tokens = np.random.default_rng(2), 2 * sum(LENGTHS)
    one = Instruction(Kind.ATTENTION, heads=1, key_heads=1, width=8)
    words, _ = words_of(one, rng.integers(-9, 9, (tokens, 8)), rng.integers(-9, 9, (tokens, 8)))
    alone, both = SPEC.run(words, 1 << 20), joined([words, words])
    twice = SPEC.run(both, 1 << 20)
    assert (twice["write"]["value"] == np.tile(alone["write"]["value"], (2, 1))).all()
    for name in ("sentences", "turns", "operands"):
        less = both | {name: {key: column[:-1] for key, column in both[name].items()}}
        assert len(SPEC.run(less, 1 << 20)["done"]["clipped"]) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 48}, "width = 48 is not a power of two from 16"),
        ({"width": 8}, "width = 8 is not"),
        ({"columns": 4, "width": 4}, "width = 4 is not a power of two from 8"),
        ({"width": 2048}, "width = 2048"),
        ({"sums": 5}, "sums = 5"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        RotarySpec(**settings)
