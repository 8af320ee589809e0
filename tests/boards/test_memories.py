"""Memories of a design: what the text says, and how many blocks of RAM they take."""

import dataclasses

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.boards.memories import Memory, memories_of, refuse_lack
from fabtune.boards.packaging import core_package
from fabtune.golden.cores.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.hw.verilog import emit


@pytest.mark.parametrize(
    ("width", "depth", "style", "reads", "blocks"),
    [
        (72, 512, "block", 1, {"bram36": 1}),
        (73, 512, "block", 1, {"bram36": 1.5}),
        (36, 512, "block", 1, {"bram36": 0.5}),
        (36, 1024, "block", 1, {"bram36": 1}),
        (18, 1024, "block", 1, {"bram36": 0.5}),
        (1, 16384, "block", 1, {"bram36": 0.5}),
        (128, 7, "block", 1, {"bram36": 2}),
        (128, 7, "block", 2, {"bram36": 4}),
        (12, 4088, "block", 1, {"bram36": 1.5}),
        (72, 4096, "ultra", 1, {"uram": 1}),
        (128, 4097, "ultra", 1, {"uram": 4}),
        (8, 8, "distributed", 1, {}),
        (8, 8, "", 1, {}),
    ],
)
def test_blocks_of_a_memory(width, depth, style, reads, blocks):
    assert Memory("m", width, depth, style, reads).blocks == blocks


def test_the_memory_of_a_block_is_found_and_counted_as_synthesis_does():
    spec = build(BLOCKS["pool"])
    (memory,) = memories_of(emit(spec).rtlil)
    assert (memory.width, memory.depth, memory.reads) == (12 * 8, 512, 1)
    assert memory.blocks["bram36"] == estimate_spec(spec).resources["bram36"]


def test_a_board_without_enough_is_refused_with_the_numbers():
    spec = ZotrainSpec(network="64 fc10", lanes=16, columns=2)
    needed = sum(one.blocks.get("bram36", 0) for one in memories_of(emit(spec).rtlil))
    small = dataclasses.replace(BOARDS["kv260"], resources=BOARDS["kv260"].resources | {"bram36": 7})
    with pytest.raises(UserError, match=rf"need at least {needed:g} BRAM36, the kv260 has 7"):
        core_package(spec, small)
    page = core_package(spec, BOARDS["kv260"], ["vivado"])["README.md"]
    assert f"At least {needed:g} of 144 BRAM36, 0 of 64 URAM" in page
    refuse_lack(memories_of(emit(spec).rtlil), BOARDS["kv260"])
