"""Block RAMs of a memory: results of open synthesis, measured once with `boards.memories.memories_of`."""

import pytest

from fabtune.golden.memories.blocks import Blocks, block_rams, ultra_rams

MEASURED = [
    # depth, width, two ports, primitive, number
    (512, 72, False, "RAMB36E2", 1),
    (512, 36, False, "RAMB18E2", 1),
    (546, 24, False, "RAMB36E2", 1),
    (600, 128, False, "RAMB36E2", 4),
    (1025, 128, False, "RAMB36E2", 6),
    (1280, 115, False, "RAMB36E2", 5),
    (1600, 128, False, "RAMB18E2", 15),
    (1818, 24, False, "RAMB18E2", 3),
    (2048, 496, False, "RAMB36E2", 28),
    (2100, 24, False, "RAMB36E2", 2),
    (3320, 768, False, "RAMB18E2", 151),
    (6520, 384, False, "RAMB36E2", 70),
    (8148, 128, False, "RAMB36E2", 30),
    (25640, 384, False, "RAMB36E2", 280),
    (66560, 24, False, "RAMB18E2", 99),
    (66560, 128, False, "RAMB36E2", 248),
    (1024, 128, True, "RAMB36E2", 4),
    (2048, 128, True, "RAMB18E2", 15),
]


@pytest.mark.parametrize(("depth", "width", "two_way", "primitive", "count"), MEASURED)
def test_block_rams_are_those_of_open_synthesis(depth, width, two_way, primitive, count):
    fit = block_rams(depth, width, two_way)
    assert (fit.primitive, fit.count) == (primitive, count)
    assert fit.segments == -(-depth // fit.rows)
    assert fit.blocks == Blocks(count if primitive == "RAMB36E2" else count / 2)


@pytest.mark.parametrize(
    ("depth", "width", "count"), [(4096, 72, 1), (4097, 128, 4), (9000, 128, 6), (25640, 384, 38), (66560, 128, 31)]
)
def test_ultra_rams_are_those_of_open_synthesis(depth, width, count):
    assert ultra_rams(depth, width).blocks == Blocks(uram=count)


def test_a_table_has_no_bytes():
    assert block_rams(2048, 19, constant=True).count * 2 == block_rams(2048, 19).count * 2
    assert block_rams(16384, 3, constant=True).blocks == Blocks(1.5)


def test_blocks_add_up():
    assert (Blocks(1.5, 2) + Blocks(0.5, 1)) * 2 == Blocks(4, 6)


def test_one_address_takes_both_ports_of_an_ultra_ram():
    assert (ultra_rams(1280, 110, one_address=True).count, ultra_rams(1280, 110).count) == (1, 2)
    assert ultra_rams(4096, 114, one_address=True).count == 2
