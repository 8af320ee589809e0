"""`activation_memory` compared with hand-computed rows: segments, both memories, 24 and 27 bits; refusals."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.memory.activation_memory import READERS, ActivationMemorySpec

SPEC = ActivationMemorySpec(lanes=4, columns=2, rows=10, wide_rows=5, row_tag=3, key_tag=0, operand_tag=2)
LARGEST = (1 << 26) - 1


def run(writes, operands=(), keys=(), rows=(), words=100):
    """Results of writes (wide, address, part, values) and reads."""

    def columns(given, *names, lanes=1):
        found = {name: np.array([one[at] for one in given], np.int64) for at, name in enumerate(names)}
        return {name: one.reshape(-1, lanes if name == "value" else 1) for name, one in found.items()}

    given = {
        "write": columns(writes, "wide", "address", "part", "value", lanes=SPEC.columns),
        "operands_read": columns(operands, "wide", "address", "part", "tag"),
        "keys_read": columns(keys, "address"),
        "rows_read": columns(rows, "address", "tag"),
    }
    return SPEC.run(given, words)


WRITES = [
    (0, 3, 1, [3, 4]),
    (0, 3, 0, [9, 9]),
    (0, 3, 0, [1, -(1 << 23)]),
    (1, 3, 0, [LARGEST, -1]),
]


def test_what_was_written_last_is_read():
    found = run(WRITES, operands=[(0, 3, 1, 2), (1, 3, 0, 3), (0, 3, 0, 0)], keys=[(3,)], rows=[(3, 7), (3, 1)])
    assert found["operands"]["value"].tolist() == [[3, 4], [LARGEST, -1], [1, -(1 << 23)]]
    assert found["operands"]["tag"][:, 0].tolist() == [2, 3, 0]
    assert found["rows"]["value"].tolist() == [[1, -(1 << 23), 3, 4]] * 2
    assert found["rows"]["tag"][:, 0].tolist() == [7, 1]
    assert found["keys"].keys() == {"value"}
    assert found["keys"]["value"].tolist() == [[1, -(1 << 23), 3, 4]]


def test_so_many_words_of_each_stream():
    found = run(WRITES, operands=[(0, 3, 1, 2)] * 3, keys=[(3,)] * 2, rows=[(3, 7)], words=1)
    assert [len(found[name]["value"]) for name in READERS] == [1, 1, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"writes": [(0, 10, 0, [0, 0])]}, "address 10 is outside the narrow memory of 10 rows"),
        ({"writes": [(1, 5, 0, [0, 0])]}, "address 5 is outside the wide memory of 5 rows"),
        ({"writes": [(1, 4, 1, [0, 0])]}, "no part 1 of a row of the wide memory"),
        ({"writes": [(0, 4, 0, [1 << 23, 0])]}, "does not fit 24 bits"),
        ({"writes": [(0, 4, 0, [0, -1 - (1 << 23)])]}, "does not fit 24 bits"),
        ({"writes": WRITES, "operands": [(1, 2, 0, 0)]}, "row 2 of the wide memory is read and was never written"),
        ({"writes": WRITES[:1], "keys": [(3,)]}, "row 3 of the narrow memory is read and was never written"),
        ({"writes": WRITES, "rows": [(11, 0)]}, "address 11 is outside the narrow memory"),
    ],
)
def test_what_is_not_there(given, message):
    with pytest.raises(UserError, match=message):
        run(**given)


@pytest.mark.parametrize("settings", [{"lanes": 24}, {"row_tag": 33}, {"key_tag": -1}, {"rows": 1}])
def test_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(UserError, match=f"{name.replace('row_', '').replace('key_', '')} = {value}"):
        ActivationMemorySpec(**settings)


def test_memories():
    narrow, wide = ActivationMemorySpec().memories
    assert (narrow.depth, narrow.width, narrow.count) == (12_288, 384, 2)
    assert (wide.depth, wide.width, wide.count) == (4_096, 432, 1)
    assert narrow.blocks("ultra").uram + wide.blocks("ultra").uram <= 56
