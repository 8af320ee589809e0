"""Addresses of chunks by hand: parts of narrow rows, strides of groups, no collisions; wrong sizes."""

from itertools import product

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.machine.core_size import DEFAULT_SIZE
from fabtune.golden.stream.memory.chunks import Chunk, ChunkLayout, ValueAddress

LAYOUT = ChunkLayout(lanes=16, columns=4, rows=1000, wide_rows=300)


def test_narrow_chunks_share_a_row():
    assert [LAYOUT.chunk(ValueAddress(False, 200), group, 3, 10) for group in (0, 1, 3, 4, 9)] == [
        Chunk(False, 203, 0),
        Chunk(False, 203, 1),
        Chunk(False, 203, 3),
        Chunk(False, 213, 0),
        Chunk(False, 223, 1),
    ]


def test_a_wide_row_is_a_chunk():
    place = ValueAddress(True, 20)
    assert [LAYOUT.chunk(place, group, 9, 10) for group in (0, 1, 5)] == [
        Chunk(True, address, 0) for address in (29, 39, 79)
    ]


@pytest.mark.parametrize("wide", [False, True])
def test_no_two_chunks_are_in_one_place(wide):
    found = [LAYOUT.chunk(ValueAddress(wide, 7), group, row, 10) for group, row in product(range(9), range(10))]
    assert len(set(found)) == len(found)


def test_formats():
    assert (LAYOUT.parts, LAYOUT.part.width, LAYOUT.address.width) == (4, 2, 10)
    alone = ChunkLayout(lanes=8, columns=8, rows=64, wide_rows=65)
    assert (alone.parts, alone.part.width, alone.address.width) == (1, 1, 7)


def test_the_default_is_that_of_the_core():
    for name, value in vars(ChunkLayout()).items():
        assert value == getattr(DEFAULT_SIZE, name), name


@pytest.mark.parametrize(
    "settings", [{"lanes": 24}, {"lanes": 2}, {"columns": 64}, {"columns": 0}, {"rows": 1}, {"wide_rows": 1 << 21}]
)
def test_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(UserError, match=f"{name} = {value}"):
        ChunkLayout(**settings)
