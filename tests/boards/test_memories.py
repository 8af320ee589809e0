"""Memories of a design: what the text says, and how many blocks of RAM they take."""

import dataclasses
import json
import re
from collections import Counter, defaultdict
from functools import cache

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory

from fabtune.boards.board import BOARDS
from fabtune.boards.estimate import flow
from fabtune.boards.estimate.contents import contents_in_files
from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.boards.memories import memories_of, refuse_lack
from fabtune.boards.packaging import core_package
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.hw import yosys
from fabtune.hw.verilog import emit

# as in vivado/test_ip: a core is generated once
SMALL = {"network": "64 fc10", "lanes": 16, "columns": 2}


@cache
def emitted(spec, board):
    """A core for a board, which several tests look at."""
    return emit(spec, device=BOARDS[board].fabric)


@pytest.mark.parametrize(
    ("width", "depth", "style", "reads", "maps_to", "blocks"),
    [
        (72, 512, "block", 1, "1 RAMB36E2", {"bram36": 1, "uram": 0}),
        (36, 512, "block", 1, "1 RAMB18E2", {"bram36": 0.5, "uram": 0}),
        (36, 512, "block", 2, "2 RAMB18E2", {"bram36": 1, "uram": 0}),
        (72, 4096, "ultra", 1, "1 URAM288", {"bram36": 0, "uram": 1}),
        (128, 4097, "ultra", 1, "4 URAM288", {"bram36": 0, "uram": 4}),
        (14, 32, "distributed", 1, "1 RAM32M16", {"bram36": 0, "uram": 0}),
        (8, 33, "", 1, "2 RAM64M8", {"bram36": 0, "uram": 0}),
        (32, 512, "", 1, "1 RAMB18E2", {"bram36": 0.5, "uram": 0}),
        (8, 8, "registers", 1, "64 flip-flops", {"bram36": 0, "uram": 0}),
    ],
)
def test_what_a_memory_maps_to(width, depth, style, reads, maps_to, blocks):
    attributes = {"ram_style": style} if style else {}
    words = memory.Memory(shape=width, depth=depth, init=[], attrs=attributes)
    (found,) = memories_of(design_of(words, [words.read_port() for _ in range(reads)], words.write_port()))
    assert (found.width, found.depth, found.style, found.reads, found.writes) == (width, depth, style, reads, 1)
    assert (found.maps_to, found.blocks) == (maps_to, blocks)


def test_a_small_table_maps_to_luts():
    words = memory.Memory(shape=2, depth=64, init=[0, 1, 2, 3] * 16)
    (found,) = memories_of(design_of(words, [words.read_port()]))
    assert (found.writes, found.maps_to) == (0, "LUTs")


@pytest.mark.parametrize(
    ("style", "shared", "maps_to"),
    [("block", True, "1 RAMB18E2"), ("block", False, "2 RAMB18E2"), ("ultra", True, "1 URAM288")],
)
def test_a_write_and_a_read_of_one_address_share_a_port(style, shared, maps_to):
    words = memory.Memory(shape=18, depth=1024, init=[], attrs={"ram_style": style})
    design, writes, address, latch = Module(), Signal(), Signal(10), Signal(18)
    design.submodules.words = words
    write, other, read = words.write_port(), words.read_port(), words.read_port(domain="comb")
    design.d.comb += [write.en.eq(writes), other.en.eq(~writes)]
    # the same logic twice
    design.d.comb += write.addr.eq(Mux(writes, address, ~address))
    design.d.comb += other.addr.eq(Mux(writes, address, ~address) if shared else address)
    design.d.sync += latch.eq(read.data)
    ports = [writes, address, latch, read.addr, write.data, other.data]
    (found,) = memories_of(rtlil.convert(design, ports=ports))
    assert (found.reads, found.mode, found.maps_to) == (2, "read first, latch with reset", maps_to)


def design_of(words, reads, *writes):
    """A module in RTLIL with a memory whose ports are its own."""
    design = Module()
    design.submodules.words = words
    ports = [getattr(port, name) for port in reads for name in ("addr", "data")]
    return rtlil.convert(
        design, ports=[*ports, *(getattr(port, name) for port in writes for name in ("en", "addr", "data"))]
    )


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
    core = emitted(spec, board)
    memories = memories_of(core.rtlil)
    assert {one.style for one in memories} <= {"block", "distributed", "", "ultra"}
    assert any(one.style == "ultra" for one in memories) == ultra
    assert {one.mode for one in memories if one.style == "ultra"} <= {"read first"}
    assert {one.mode for one in memories if one.style == "block"} <= {"read first", "latch with reset"}
    assert {one.mode for one in memories} <= {"read first", "latch with reset", "read only", "asynchronous"}
    ports = re.findall(r"cell \$memrd_v2 (?:.*\n)*?\s+end\n", core.rtlil)
    assert len(ports) == sum(one.reads for one in memories)
    assert all("connect \\ARST 1'0" in port and "connect \\SRST 1'0" in port for port in ports)
    for one in re.findall(r'ram_style = "ultra" \*\)\n  reg \[\d+:0\] (\S+) ', core.verilog):
        assert not re.search(rf"^    {re.escape(one)} ?\[", core.verilog, re.MULTILINE)


@pytest.mark.parametrize(
    ("domain", "transparent", "mode"),
    [("sync", False, "read first"), ("sync", True, "write first"), ("comb", False, "asynchronous")],
)
def test_what_a_port_reads_at_the_address_that_is_written(domain, transparent, mode):
    words = memory.Memory(shape=8, depth=4, init=[])
    write = words.write_port()
    read = words.read_port(domain=domain, transparent_for=[write] if transparent else [])
    assert [one.mode for one in memories_of(design_of(words, [read], write))] == [mode]


def test_a_board_without_enough_is_refused_with_the_numbers():
    spec = ZotrainSpec(**SMALL)
    memories = memories_of(emitted(spec, "kv260").rtlil)
    needed = sum(one.blocks["bram36"] for one in memories if one.style)
    small = dataclasses.replace(BOARDS["kv260"], resources=BOARDS["kv260"].resources | {"bram36": 7})
    with pytest.raises(UserError, match=rf"need at least {needed:g} BRAM36, the kv260 has 7"):
        core_package(spec, small)
    refuse_lack(memories, BOARDS["kv260"])


def test_the_page_lists_each_memory_and_what_it_maps_to():
    spec = ZotrainSpec(**SMALL)
    memories = memories_of(emitted(spec, "kv260").rtlil)
    page = core_package(spec, BOARDS["kv260"], ["vivado"])["README.md"]
    listed = {}
    for row in re.findall(r"^\| (`.*) \|$", page.partition("## Memories")[2], re.MULTILINE):
        names, number, words, bits, reads, mode, style, maps_to = (cell.strip() for cell in row.split("|"))
        first, *last = re.findall(r"`(.*?)`", names)
        ends = [int(re.search(r"(\d+)\D*$", name)[1]) for name in (first, *last)] if last else [0, 0]
        for index in range(ends[0], ends[1] + 1):
            name = re.sub(r"\d+(?=\D*$)", str(index), first) if last else first
            listed[f"zotrain.{name}"] = (int(words), int(bits), int(reads), mode, style, maps_to)
        assert int(number) == ends[1] - ends[0] + 1
    assert listed == {one.name: (one.depth, one.width, one.reads, one.mode, one.style, one.maps_to) for one in memories}
    assert re.search(r"`trainer\.engine\.activations\.bank0` to `trainer\.engine\.activations\.bank15` \| 16 ", page)
    blocks = sum(one.blocks["bram36"] for one in memories)
    assert f"Together {blocks:g} of 144 BRAM36, 0 of 64 URAM" in page


def behaviour(verilog):
    """Verilog without what chooses a kind of RAM, and without the zeros that simulators are told of."""
    verilog = re.sub(r"`ifndef SYNTHESIS\n.*?`endif\n", "", verilog, flags=re.DOTALL)
    return re.sub(r'  \(\* ram_style = "\w+" \*\)\n', "", verilog)


MAPPED = [
    pytest.param(
        core, preset, board, marks=[] if (core, preset, board) == ("zotrain", "tiny", "kv260") else pytest.mark.slow
    )
    for core in ("instantft", "zotrain")
    for preset in BLOCKS[core].presets
    for board in BOARDS
]


@pytest.mark.parametrize(("core", "preset", "board"), MAPPED)
def test_each_memory_maps_to_what_it_does_in_the_whole_core(tmp_path, core, preset, board):
    design = emitted(build(BLOCKS[core], (), preset), board)
    (tmp_path / "design").write_text(contents_in_files(design.verilog, tmp_path, "contents"))
    for name, text in {**flow.files(), flow.PRIMITIVES: flow.primitives([design.verilog])}.items():
        (tmp_path / name).write_text(text)
    commands = flow.flow(["read_verilog -sv design"], design.top)
    mapped = next(number for number, command in enumerate(commands) if "lutrams" in command and "techmap" in command)
    kinds = " ".join(f"t:{kind}" for kind in ("RAM*", "URAM*"))
    yosys.run([*commands[: mapped + 1], f"select {kinds} %u", "write_json -selected netlist"], tmp_path)
    found = defaultdict(Counter)
    for name, cell in json.loads((tmp_path / "netlist").read_text())["modules"][design.top]["cells"].items():
        found[re.fullmatch(r"(.+?)(?:\.\1)?\.\d+\.\d+(?:\..*)?", name)[1]][cell["type"]] += 1
    memories = {one.name.partition(".")[2]: one for one in memories_of(design.rtlil)}
    assert found == {name: dict(one.primitives) for name, one in memories.items() if one.primitives}


PRESETS = [(core, preset) for core in ("instantft", "zotrain") for preset in BLOCKS[core].presets]


@pytest.mark.parametrize(
    ("core", "preset"),
    [one if one == ("zotrain", "tiny") else pytest.param(*one, marks=pytest.mark.slow) for one in PRESETS],
)
def test_a_core_is_the_same_on_both_boards_but_for_the_kind_of_ram(core, preset):
    # so what is simulated of a preset is so for both
    spec = build(BLOCKS[core], (), preset)
    texts = {board: emitted(spec, board).verilog for board in BOARDS}
    assert 'ram_style = "ultra"' not in texts["zcu102"]
    assert {behaviour(text) for text in texts.values()} == {behaviour(emit(spec).verilog)}
    assert "always @(posedge aclk)" in behaviour(texts["zcu102"])
