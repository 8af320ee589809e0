"""Memories of a design: extraction from RTLIL, and their block RAMs."""

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
from fabtune.boards.memories import memories_of
from fabtune.boards.packaging import core_package
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.network_core import NetworkCoreSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.memories.blocks import Blocks
from fabtune.golden.models.text import network_from
from fabtune.golden.registry import BLOCKS, CORES
from fabtune.golden.settings import build
from fabtune.hw import yosys
from fabtune.hw.verilog import emit

from ..small_cores import ADAPTERS, DEEP, ONE_STAGE, with_slow, zostream

PRESETS = [(core, preset) for core, kind in CORES.items() for preset in kind.presets]


@cache
def emitted(spec, board):
    """A core for a board, cached for several tests."""
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
    """RTLIL module with one memory and ports for it."""
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
        (ZotrainSpec(**DEEP), "kv260", True),
        (InstantftSpec(**ADAPTERS), "kv260", False),
        (ZotrainSpec(**ONE_STAGE), "zcu102", False),
        pytest.param(build(InstantftSpec, (), "tiny"), "zcu102", False, marks=pytest.mark.slow),
        pytest.param(build(ZotrainSpec, (), "small"), "kv260", True, marks=pytest.mark.slow),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_memories_of_the_cores_are_as_their_kinds_of_ram_can_be(spec, board, ultra):
    """UltraRAMs have no contents or reset, and no memory reads a word in the cycle of its write."""
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


NETWORKS = {
    "cnn": "3x32x32 conv16k3p1 relu pool2 conv32k3p1 relu pool2 conv64k3p1 relu pool2 flatten fc10",
    "residual": "3x16x16 conv8k3p1 relu conv8k3p1 add@2,1 relu conv16k3p1s2 relu avg8 flatten fc10",
    "depthwise": "1x49x10 conv16k10x4p4,5,1,1s2 relu dw3p1 relu conv16k1 relu avg5 flatten fc12",
    "leaky": "2x12x12 conv8k5 leaky0.1 pool2 flatten fc40 leaky0.3 fc200",
    "table": "60 fc96 relu fc96 relu fc96 relu fc6",
    "autoencoder": "640 fc128 relu fc8 relu fc128 relu fc640",
}
"""Six networks besides the presets'."""


def planned_as_emitted(spec, board):
    """Compare the plan with the RTL by depth, width, kind, blocks and number of memories.

    Synthesis chooses the kind of constants and of Amaranth's FIFO of logits.
    """
    planned, found = Counter(), Counter()
    for shape, kind in spec.memory_plan(BOARDS[board].fabric).kinds.items():
        if (blocks := shape.blocks(kind)) != Blocks():
            one = shape.fit(kind).blocks * (1 if shape.two_way else shape.reads)
            chosen = "" if shape.constant or shape.name == "logits" else kind
            planned[shape.depth, shape.width, chosen, one] += shape.count
            assert one * shape.count == blocks
    for one in memories_of(emitted(spec, board).rtlil):
        if (blocks := Blocks(**one.blocks)) != Blocks():
            found[one.depth, one.width, one.style if one.writes else "", blocks] += 1
    return planned, found


def spec_of(core, network, preset):
    """A core preset with another network."""
    kind, described = BLOCKS[core], network_from(network)
    return kind.of(
        described, byte_inputs=len(described.input_shape) == 3, **kind.for_network(kind.presets[preset], described)
    )


SPECS = {
    "zotrain, one stage": (ZotrainSpec(**ONE_STAGE), "kv260"),
    "instantft, one stage": (InstantftSpec(**ADAPTERS), "kv260"),
    "zotrain, UltraRAM": (ZotrainSpec(**DEEP), "kv260"),
    "zostream": (zostream(ports=2), "kv260"),
}


@pytest.mark.parametrize("name", with_slow(SPECS))
def test_the_plan_has_the_blocks_of_the_emitted_core(name):
    planned, found = planned_as_emitted(*SPECS[name])
    assert planned == found
    assert sum(planned.values()) > 4


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(("core", "preset"), PRESETS)
def test_the_plan_of_each_preset_has_the_blocks_of_the_emitted_core(core, preset, board):
    planned, found = planned_as_emitted(build(BLOCKS[core], (), preset), board)
    assert planned == found


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("core", "preset"), [one for one in PRESETS if issubclass(CORES[one[0]], NetworkCoreSpec)])
def test_the_plan_of_other_networks_has_the_blocks_of_the_emitted_core(core, preset, network, board):
    try:
        spec = spec_of(core, NETWORKS[network], preset)
    except UserError:
        pytest.skip("the preset refuses the network")
    planned, found = planned_as_emitted(spec, board)
    assert planned == found


BEFORE = {
    ("instantft", "tiny"): {"zcu102": (141.5, 0), "kv260": (71.5, 11)},
    ("instantft", "small"): {"zcu102": (171, 0), "kv260": (95.5, 11)},
    ("instantft", "fast"): {"zcu102": (186.5, 0), "kv260": (100.5, 22)},
    ("instantft", "chip"): {"zcu102": (429, 0), "kv260": (95, 53)},
    ("zotrain", "tiny"): {"zcu102": (53, 0), "kv260": (53, 0)},
    ("zotrain", "small"): {"zcu102": (92, 0), "kv260": (79, 2)},
    ("zotrain", "fast"): {"zcu102": (119.5, 0), "kv260": (89.5, 4)},
    ("zotrain", "large"): {"zcu102": (499, 0), "kv260": (43, 57)},
}
"""Block RAMs of the presets with kinds fixed per memory: no plan may need more."""


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("preset", BEFORE)
def test_no_preset_takes_more_than_without_a_plan(preset, board):
    resources, (bram36, uram) = BOARDS[board].resources, BEFORE[preset][board]
    blocks = build(BLOCKS[preset[0]], (), preset[1]).memory_plan(BOARDS[board].fabric).blocks
    assert blocks.bram36 < bram36
    saved = (bram36 - blocks.bram36) / resources["bram36"]
    assert (blocks.uram - uram) / max(resources["uram"], 1) < saved


def test_a_network_of_33834_parameters_leaves_most_of_the_kv260():
    # rows beyond 512 took 121.5 block RAMs and no UltraRAM
    spec = spec_of("zotrain", NETWORKS["cnn"], "tiny")
    assert spec.described.parameters == 33_834
    assert spec.mapping.all_rows == 564
    blocks = spec.memory_plan(BOARDS["kv260"].fabric).blocks
    assert blocks.bram36 <= 60
    assert blocks.uram <= 32


def test_the_page_lists_each_memory_and_what_it_maps_to():
    spec = ZotrainSpec(**ONE_STAGE)
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
    """Verilog without RAM attributes and without initial zeros for simulators."""
    verilog = re.sub(r"`ifndef SYNTHESIS\n.*?`endif\n", "", verilog, flags=re.DOTALL)
    return re.sub(r'  \(\* ram_style = "\w+" \*\)\n', "", verilog)


MAPPED = [
    pytest.param(ZotrainSpec(**DEEP), id="deep"),
    *(
        pytest.param(build(BLOCKS[core], (), preset), id=f"{core}-{preset}", marks=pytest.mark.slow)
        for core, preset in PRESETS
    ),
]
"""A core with memories of all kinds, and each preset."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "board", [one if one == "kv260" else pytest.param(one, marks=pytest.mark.slow) for one in BOARDS]
)
@pytest.mark.parametrize("spec", MAPPED)
def test_each_memory_maps_to_what_it_does_in_the_whole_core(tmp_path, spec, board):
    design = emitted(spec, board)
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


@pytest.mark.slow
@pytest.mark.parametrize("spec", MAPPED)
def test_a_core_is_the_same_on_both_boards_but_for_the_kind_of_ram(spec):
    # a preset's simulation then holds for both
    texts = {board: emitted(spec, board).verilog for board in BOARDS}
    assert 'ram_style = "ultra"' not in texts["zcu102"]
    assert {behaviour(text) for text in texts.values()} == {behaviour(emit(spec).verilog)}
    assert "always @(posedge aclk)" in behaviour(texts["zcu102"])
