"""Memories of a design: what the text says, and how many blocks of RAM they take."""

import dataclasses
import re

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import memory

from fabtune.boards.board import BOARDS
from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.boards.memories import Memory, memories_of, refuse_lack
from fabtune.boards.packaging import core_package
from fabtune.golden.cores.instantft import InstantftSpec
from fabtune.golden.cores.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.hw.verilog import emit

# as in vivado/test_ip: a core is generated once
SMALL = {"network": "64 fc10", "lanes": 16, "columns": 2}


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


@pytest.mark.parametrize(
    ("spec", "board", "ultra"),
    [
        (InstantftSpec(**SMALL, rank=2, batch=4, cache_entries=64), "kv260", True),
        (ZotrainSpec(**SMALL), "zcu102", False),
        pytest.param(build(InstantftSpec, (), "tiny"), "zcu102", False, marks=pytest.mark.slow),
        pytest.param(build(ZotrainSpec, (), "small"), "kv260", True, marks=pytest.mark.slow),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_memories_of_the_cores_are_as_their_kinds_of_ram_can_be(spec, board, ultra):
    """An UltraRAM has no contents and no reset, and no memory reads what is written in the same cycle."""
    emitted = emit(spec, device=BOARDS[board].fabric)
    memories = memories_of(emitted.rtlil)
    assert {one.style for one in memories} <= {"block", "distributed", "", "ultra"}
    assert any(one.style == "ultra" for one in memories) == ultra
    assert {one.mode for one in memories if one.style == "ultra"} <= {"read first"}
    assert {one.mode for one in memories if one.style == "block"} <= {"read first", "latch with reset"}
    assert {one.mode for one in memories} <= {"read first", "latch with reset", "read only", "asynchronous"}
    ports = re.findall(r"cell \$memrd_v2 (?:.*\n)*?\s+end\n", emitted.rtlil)
    assert len(ports) == sum(one.reads for one in memories)
    assert all("connect \\ARST 1'0" in port and "connect \\SRST 1'0" in port for port in ports)
    for one in re.findall(r'ram_style = "ultra" \*\)\n  reg \[\d+:0\] (\S+) ', emitted.verilog):
        assert not re.search(rf"^    {re.escape(one)} ?\[", emitted.verilog, re.MULTILINE)


@pytest.mark.parametrize(
    ("domain", "transparent", "mode"),
    [("sync", False, "read first"), ("sync", True, "write first"), ("comb", False, "asynchronous")],
)
def test_what_a_port_reads_at_the_address_that_is_written(domain, transparent, mode):
    design, words = Module(), memory.Memory(shape=8, depth=4, init=[])
    design.submodules.words = words
    write = words.write_port()
    read = words.read_port(domain=domain, transparent_for=[write] if transparent else [])
    text = rtlil.convert(design, ports=[write.en, write.addr, write.data, read.addr, read.data])
    assert [one.mode for one in memories_of(text)] == [mode]


def test_a_board_without_enough_is_refused_with_the_numbers():
    spec = ZotrainSpec(**SMALL)
    needed = sum(one.blocks.get("bram36", 0) for one in memories_of(emit(spec).rtlil))
    small = dataclasses.replace(BOARDS["kv260"], resources=BOARDS["kv260"].resources | {"bram36": 7})
    with pytest.raises(UserError, match=rf"need at least {needed:g} BRAM36, the kv260 has 7"):
        core_package(spec, small)
    page = core_package(spec, BOARDS["kv260"], ["vivado"])["README.md"]
    assert f"At least {needed:g} of 144 BRAM36, 0 of 64 URAM" in page
    refuse_lack(memories_of(emit(spec).rtlil), BOARDS["kv260"])


def behaviour(verilog):
    """Verilog without what chooses a kind of RAM, and without the zeros that simulators are told of."""
    verilog = re.sub(r"`ifndef SYNTHESIS\n.*?`endif\n", "", verilog, flags=re.DOTALL)
    return re.sub(r'  \(\* ram_style = "\w+" \*\)\n', "", verilog)


PRESETS = [(core, preset) for core in ("instantft", "zotrain") for preset in BLOCKS[core].presets]


@pytest.mark.parametrize(
    ("core", "preset"),
    [one if one == ("zotrain", "tiny") else pytest.param(*one, marks=pytest.mark.slow) for one in PRESETS],
)
def test_a_core_is_the_same_on_both_boards_but_for_the_kind_of_ram(core, preset):
    # so what is simulated of a preset is so for both
    spec = build(BLOCKS[core], (), preset)
    texts = [emit(spec, device=board.fabric).verilog for board in BOARDS.values()]
    assert 'ram_style = "ultra"' not in emit(spec, device=BOARDS["zcu102"].fabric).verilog
    assert {behaviour(text) for text in texts} == {behaviour(emit(spec).verilog)}
    assert "always @(posedge aclk)" in behaviour(texts[0])
