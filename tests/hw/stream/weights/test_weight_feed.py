"""`weight_feed` with the deltas' block and the core's memory system: tensors of transformers, word by word."""

from dataclasses import replace
from enum import IntEnum

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.instruction import Instruction, Kind
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.weights.tensor_sequencer import PassInstruction, words_of
from fabtune.golden.stream.weights.weight_feed import WeightFeedSpec
from fabtune.golden.stream.weights.word_offsets import OffsetCommand, WordOffsetsSpec
from fabtune.hw.axi.bus import Response
from fabtune.hw.cores.memory_system import MemorySystem
from fabtune.hw.ports import members
from fabtune.hw.stream.weights.weight_feed import WeightFeed
from fabtune.hw.stream.weights.word_offsets import WordOffsets
from tests.golden.stream.weights.test_tensor_sequencer import POSITION, Case, brought
from tests.hw.outside import Outside
from tests.hw.play import play_interface
from tests.own_transformers import decoder, encoder, vision

SIZE = CoreSize(8, 4, rows=4096, wide_rows=4096)
SOURCE = build(PezoSpec, ["scale.urng.bits=4", "scale.urng.n=6"])
BASE = 0x4_0000
LIMIT = 30_000
SMALL = {
    "encoder": lambda: encoder(hidden=8, heads=2, wide=12, layers=1, classes=3),
    "decoder": lambda: decoder(hidden=8, heads=2, key_heads=1, width=8, wide=12, layers=1, classes=3),
    "vision": lambda: vision(hidden=8, heads=2, wide=12, classes=3),
}


class Error(IntEnum):
    """Error codes of the core under test."""

    READ_SLVERR = 1
    READ_DECERR = 2
    WRITE_SLVERR = 3
    WRITE_DECERR = 4


class Fed(wiring.Component):
    """Feed, deltas, and a memory system shared with another requester."""

    def __init__(self):
        self.spec = WeightFeedSpec(lanes=8, columns=4, numbers=6, depth=16, correction_depth=4, burst=4)
        self.deltas_spec = WordOffsetsSpec(generator=SOURCE)
        names = ("other", "stream", "corrections")
        self.memory = MemorySystem(names, (), Error)
        self.feed, self.deltas = WeightFeed(self.spec), WordOffsets(self.deltas_spec)
        own = self.feed.signature.members
        super().__init__(
            {
                **{name: own[name] for name in ("operation", "w", "v", "failed", "number", "place")},
                **{name: one for name, one in members(self.deltas_spec).items() if name != "offsets"},
                **{name: self.memory.signature.members[name] for name in ("reader0", "writer0", "fault", "other_read")},
                "taken": Out(1),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        feed, deltas, memory = self.feed, self.deltas, self.memory
        m.submodules.feed, m.submodules.deltas, m.submodules.memory = feed, deltas, memory
        wiring.connect(m, feed.stream_read, memory.stream_read)
        wiring.connect(m, feed.corrections_read, memory.corrections_read)
        wiring.connect(m, deltas.offsets, feed.offsets)
        for part, names in (
            (feed, ("operation", "w", "v")),
            (deltas, ("u", "load", "save", "done")),
            (memory, ("reader0", "writer0", "other_read")),
        ):
            for name in names:
                ours, outer = getattr(part, name), wiring.flipped(getattr(self, name))
                wiring.connect(m, outer, ours)
        own, request, command = self.command, feed.request, deltas.command
        m.d.comb += [
            command.valid.eq(own.valid | request.valid),
            command.payload.eq(own.payload),
            own.ready.eq(command.ready),
            request.ready.eq(command.ready & ~own.valid),
            feed.address.eq(BASE),
            self.failed.eq(feed.failed),
            self.number.eq(feed.number),
            self.place.eq(feed.place),
            self.fault.failed.eq(memory.fault.failed),
            self.fault.error.eq(memory.fault.error),
            self.fault.address.eq(memory.fault.address),
        ]
        with m.If(~own.valid):
            m.d.comb += command.payload.kind.eq(OffsetCommand.OFFSETS)
            for name in ("factor", "word", "count", "fraction", "wide"):
                m.d.comb += getattr(command.payload, name).eq(getattr(request.payload, name))
        reads = (feed.stream_read.beats, feed.corrections_read.beats)
        m.d.comb += [
            self.taken.eq(reads[0].valid & reads[0].ready),
            self.refused.eq(reads[0].valid & ~reads[0].ready | reads[1].valid & ~reads[1].ready),
        ]
        return m


def rows(words, fields):
    """Words of a stream as simulator values."""
    columns = [(one.name, words[one.name].tolist(), one.lanes) for one in fields]
    count = len(columns[0][1])
    return [
        {name: column[at] if lanes > 1 else column[at][0] for name, column, lanes in columns} for at in range(count)
    ]


def feed(dut, image, operations, commands=None, take=None, stall=0.0, bus_stall=0.0, bad=None, limit=LIMIT, **more):
    """Play a pass: the deltas' commands, then instructions."""
    outside = Outside(bus_stall, bad)
    outside.load(BASE, image)
    give = {"operation": rows(operations, dut.spec.sequencer.streams()["operation"].fields)}
    after = {}
    if commands:
        streams, own = dut.deltas_spec.streams(), commands.commands[:2]
        numbers = SOURCE.words_at(POSITION + np.arange(dut.deltas_spec.times))
        u = numbers if isinstance(numbers, dict) else {"number": numbers}
        give["command"] = [{"word": 0, "fraction": 0, "wide": 0, "factor": 0, **one} for one in own]
        give["u"] = rows(u, streams["u"].fields)
        give["load"] = rows({"delta": commands.images[0]}, streams["load"].fields)
        after = {"operation": ("done", 2)}
        take = {"done": 2, **take}
    return play_interface(
        dut,
        give=give,
        take=take,
        after=after,
        watch={"refused": None, "failed": "number", "taken": ("place",)},
        background=[outside.reader(0, dut.reader0)],
        stall=stall,
        limit=limit,
        **more,
    )


@pytest.mark.parametrize(
    ("name", "tuned", "stall", "bus_stall"),
    [
        ("encoder", "all", 0.0, 0.0),
        pytest.param("decoder", "sensitive", 0.3, 0.8, marks=pytest.mark.slow),
        pytest.param("vision", "from a layer on", 0.0, 0.8, marks=pytest.mark.slow),
        pytest.param("encoder", "sensitive", 0.0, 0.8, marks=pytest.mark.slow),
        pytest.param("decoder", "all", 0.3, 0.8, marks=pytest.mark.slow),
        pytest.param("vision", "all", 0.5, 0.5, marks=pytest.mark.slow),
    ],
)
def test_tensors_of_a_pass(name, tuned, stall, bus_stall):
    """At the port's full speed, with a slow port, and with a slow consumer of words."""
    dut, case = Fed(), Case(SMALL[name](), tuned, SIZE, SOURCE)
    made, operations, commands = brought(case, dut.spec.sequencer, 3)
    counts = {port: len(made[port]["last"]) for port in ("w", "v")}
    seen = feed(dut, case.body, operations, commands, counts, stall, bus_stall)
    fields = dut.spec.weights.streams()
    for port in ("w", "v"):
        assert seen.words(port) == rows(made[port], fields[port].fields)
    # a shared port never waits
    assert not seen.words("refused")
    assert not seen.words("failed")


def layer(number, inputs, outputs, beat, **fields):
    """A linear layer in NF4 at a beat of the stream."""
    fields = {"number": number, "inputs": inputs, "outputs": outputs, "beat": beat, "coded": 1, **fields}
    return PassInstruction.of(Instruction(Kind.LINEAR, **fields), 1)


def operations_of(dut, *given):
    return words_of(given, dut.spec.sequencer.streams()["operation"].fields)


def zeros(beats):
    """Image of codes of 0."""
    return np.full(beats * BEAT, 0x77, np.uint8)


def test_a_matrix_leaves_a_beat_a_cycle():
    """Layers of 4 x 3 tiles, memory latency 20 cycles: layers follow each other except for the 16 cycles of a bias.

    After a bias a tile is filled in 5 cycles: the next reads have begun long before.
    """
    dut = Fed()
    each = 4 * dut.spec.sequencer.weights.dequant.record_beats(0) + 4
    given = [layer(number, 24, 16, each * number, biased=int(number > 1)) for number in range(4)]
    seen = feed(dut, zeros(4 * each), operations_of(dut, *given), take={"w": 4 * 12 * 8, "v": 8})
    cycles = np.array(seen.cycles("w")).reshape(4, -1)
    assert (np.diff(cycles) == 1).all()
    assert (cycles[1:, 0] - cycles[:-1, -1]).tolist() == [1, 21, 21]


def test_a_bad_response_leaves_the_tile_that_is_missing():
    """In the second of two layers; earlier reads are used, and none of their data is lost."""
    dut = Fed()
    each = dut.spec.sequencer.weights.dequant.record_beats(0)
    first, second = layer(7, 64, 8, 0), layer(8, 24, 16, 2 * each)
    bad = {("read", BASE + BEAT * (2 * each + 2 * each + 4)): Response.SLVERR}
    held = []

    async def body(bench):
        await bench.until("fault.failed")
        await bench.tick(200)
        held.append((bench.get("place"), bench.get("fault.error"), bench.get("fault.address"), bench.get("failed")))

    operations = operations_of(dut, first, second)
    seen = feed(dut, zeros(6 * each), operations, take={"w": None, "v": 0}, bad=bad, body=body)
    count = len(seen.words("taken"))
    asked = [tensor.reads for one in (first, second) for tensor in dut.spec.sequencer.tensors(one)]
    tiles = [(one.number, int(tile)) for one in asked for tile in dut.spec.stream.tiles(one)]
    assert [tuple(word[0].values()) for word in seen.words("taken")] == tiles[:count]
    (place, error, address, failed) = held[0]
    # a failed burst is not delivered at all
    assert 4 * each <= count + dut.memory.reader.burst
    assert count <= 4 * each + 4
    assert (place["number"], place["tile"]) == tiles[count]
    assert error == Error.READ_SLVERR
    assert BASE + BEAT * 2 * each <= address <= BASE + BEAT * (4 * each + 4)
    assert not failed


def test_sensitive_weights_that_go_back_are_a_failure():
    """The failure's number is golden's first wrong tile."""
    dut, case = Fed(), Case(SMALL["decoder"](), "sensitive", SIZE, SOURCE)
    name, beats = max(case.layout.corrections.items(), key=lambda item: case.shapes[item[0]])
    many = len(case.layout.sensitive[name])
    own = tuple(one for one in case.program.instructions if one.number == name[0])
    case.program = replace(case.program, instructions=own)
    case.body = case.body.copy()
    entries = case.body[beats.start * BEAT :].view("<i4").reshape(-1, 2)
    # an index of the last tile replaces another index
    entries[many - 1, 0] = entries[0, 0]
    made, operations, commands = brought(case, dut.spec.sequencer, 3)
    wrong = made["w"]["error"][:, 0] == 1
    number = made["w"]["tile"][wrong][0, 0]
    assert number > 0
    counts = {port: len(made[port]["last"]) for port in ("w", "v")}
    seen = feed(dut, case.body, operations, commands, counts)
    assert [word["error"] for word in seen.words("w")] == wrong.tolist()
    assert set(seen.words("failed")) == {number}
