"""`pool_head` on a memory compared with the integer transformer's functions; instruction words and limits."""

import numpy as np
import pytest

from fabtune.golden.block import joined
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Narrower, divided
from fabtune.golden.stream.instruction import POOLS, Instruction, Kind, RowAddress
from fabtune.golden.stream.memory.chunks import ValueAddress
from fabtune.golden.stream.norms import unit_rows
from fabtune.golden.stream.values.chunk_unit import chunks_of
from fabtune.golden.stream.values.pool_head import KINDS, PoolHeadSpec, pool_operation

SPEC = PoolHeadSpec(lanes=8, columns=4, rows=256, wide_rows=256, sums=32)
LENGTHS = (3, 1, 5)
CAPACITY = 20


class Memory:
    """Chunks by address."""

    def __init__(self):
        self.chunks = {}

    def put(self, place, values):
        for row, chunks in enumerate(chunks_of(values, SPEC.columns)):
            for group, chunk in enumerate(chunks):
                self.chunks[SPEC.layout.chunk(place, group, row, CAPACITY)] = chunk

    def get(self, place, rows, features):
        groups = range(-(-features // SPEC.columns))
        found = [
            [self.chunks[SPEC.layout.chunk(place, group, row, CAPACITY)] for group in groups] for row in range(rows)
        ]
        return np.array(found).reshape(rows, -1)[:, :features]

    def run(self, fields, sentences):
        """Run an operation in memory order: each chunk is read after all earlier writes."""
        words = {
            "operation": {name: np.array([[value]]) for name, value in fields.items()},
            "sentences": {"first": sentences[:, :1], "length": sentences[:, 1:]},
            "operands": {"value": np.zeros((1 << 12, SPEC.columns), np.int64)},
        }
        # addresses do not depend on values
        reads = SPEC.run(words, 1 << 20)["operands_read"]
        places = places_of(reads)
        words["operands"]["value"] = np.array([self.chunks[place] for place in places])
        found = SPEC.run(words, 1 << 20)
        assert found["done"]["clipped"].tolist() == [[0]]
        written = found["write"]
        self.chunks |= dict(zip(places_of(written), written["value"], strict=True))
        return places, written


def places_of(words):
    return list(zip(*(words[name][:, 0].tolist() for name in ("wide", "address", "part")), strict=True))


def sentences_of(chunks):
    first = np.cumsum([0, *LENGTHS * 2])[:-1]
    return np.tile(np.stack([first, LENGTHS * 2], axis=1), (chunks, 1))


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("over", [True, False])
def test_pools_are_those_of_the_transformer(pool, over):
    rng, features, memory = np.random.default_rng(1), 10, Memory()
    values = rng.integers(-5, 5, (18, features)) << rng.integers(0, 20, features)
    source = ValueAddress(False, 2 * CAPACITY)
    memory.put(source, values)
    target = source if over else ValueAddress(True, 0)
    one = Instruction(Kind.POOL, pool=POOLS.index(pool), inputs=features, source=RowAddress(False, 2).bits)
    one = Instruction(**vars(one) | {"destination": RowAddress(target.wide, target.base // CAPACITY).bits})
    memory.run(pool_operation(one, CAPACITY, 6), sentences_of(3))
    own = np.split(values, np.cumsum(LENGTHS * 2)[:-1])
    expected = {
        "first": [part[0] for part in own],
        "last": [part[-1] for part in own],
        "mean": [divided(part.sum(axis=0), len(part)) for part in own],
    }
    assert (memory.get(target, 6, features) == expected[pool]).all()


def test_a_pool_in_place_reads_nothing_that_it_wrote():
    memory, before, at = Memory(), set(), 0
    memory.put(ValueAddress(False, 0), np.arange(18 * 12).reshape(18, 12))
    fields = {"kind": KINDS.index("mean"), "features": 12, "rows": 6, "stride": CAPACITY}
    fields |= {"source_wide": 0, "source": 0, "destination_wide": 0, "destination": 0}
    reads, written = memory.run(fields, sentences_of(3))
    # a sentence's tokens are read before its chunk is written
    for length, place in zip(LENGTHS * 2 * 3, places_of(written), strict=True):
        assert before.isdisjoint(reads[at : at + length])
        before.add(place)
        at += length


@pytest.mark.parametrize("features", [10, 4, 1])
def test_rows_have_unit_length(features):
    rng, memory, place = np.random.default_rng(2), Memory(), ValueAddress(False, 0)
    values = rng.integers(-(1 << 23), 1 << 23, (7, features)) >> np.arange(0, 28, 4)[:, None]
    values[6] = 0
    memory.put(place, values)
    one = Instruction(Kind.UNIT, inputs=features, source=0, destination=0)
    memory.run(pool_operation(one, CAPACITY, 7), sentences_of(0))
    found = memory.get(place, 7, features)
    assert (found == unit_rows(values, Narrower())).all()
    assert np.abs(np.linalg.norm(found[:4] / 65536, axis=1) - 1).max() < 1e-4


def test_what_lies_behind_the_features_does_not_count():
    fields = {"kind": KINDS.index("unit"), "features": 2, "rows": 1, "stride": 1}
    fields |= {"source_wide": 0, "source": 0, "destination_wide": 0, "destination": 0}
    words = {
        "operation": {name: np.array([[value]]) for name, value in fields.items()},
        "sentences": {name: np.zeros((0, 1), np.int64) for name in ("first", "length")},
        "operands": {"value": np.array([[3, 4, 1000, -1000]] * 3)},
    }
    assert (SPEC.run(words, 9)["write"]["value"] == [[39322, 52429, 0, 0]]).all()


def test_an_operation_lacks_nothing():
    fields = {"kind": KINDS.index("first"), "features": 5, "rows": 2, "stride": 9}
    fields |= {"source_wide": 1, "source": 0, "destination_wide": 1, "destination": 9}
    words = {
        "operation": {name: np.array([[value]]) for name, value in fields.items()},
        "sentences": {"first": np.array([[0], [4]] * 2), "length": np.full((4, 1), 4)},
        "operands": {"value": np.arange(16).reshape(4, 4)},
    }
    both = joined([words, words])
    assert len(SPEC.run(both, 99)["done"]["clipped"]) == 2
    for name in ("sentences", "operands"):
        less = both | {name: {key: column[:-1] for key, column in both[name].items()}}
        assert len(SPEC.run(less, 99)["done"]["clipped"]) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sums": 3}, "sums = 3"),
        ({"sums": 2048}, "sums = 2048"),
        ({"columns": 2}, "columns = 2"),
        ({"lanes": 8, "columns": 16}, "columns = 16"),
        ({"rows": 1}, "rows = 1"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        PoolHeadSpec(**settings)
