"""Batch scheduler: reads of a batch, their order, and their conditions."""

import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.hw.lora.job.batch_scheduler import BatchScheduler

from ...memory import Memory
from ...play import play_interface

NETWORK = "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"
BATCH = 4
SAMPLES_AT, CACHE_AT = 0x1_0000, 0x4_0000
FIRST = [(9, 1), (3, 0), (60, 2), (9, 2)]
SECOND = [(5, 2)]


class Around:
    """A scheduler with its surroundings: sample scheduler entries, unpacker, memory."""

    def __init__(self, last_only=False, stall=0.0, columns=4, ports=1):
        self.mapping = InstantftSpec(network=NETWORK, batch=BATCH, last_only=last_only, columns=columns).mapping
        self.dut = BatchScheduler(self.mapping, BATCH, ports=ports)
        self.samples, self.records = Memory(stall), Memory(stall, seed=5)
        self.entries, self.left, self.cycles = [], 0, 60

    def play(self, body, memories=None, **job):
        """Play until ``body(bench)`` returns; returns written labels, and begun and ended batches."""
        wires = {"job.samples": SAMPLES_AT, "job.cache": CACHE_AT, "settled": 1}
        if memories is None:
            memories = [self.samples.reader(self.dut.sample_command), self.records.reader(self.dut.record_command)]
        return play_interface(
            self.dut,
            body=body,
            wires=wires | {f"job.{name}": value for name, value in job.items()},
            watch={
                "label.enable": ("address", "label"),
                "load.start": ("half", "count"),
                "loaded.valid": ("half", "count"),
            },
            answer={"batch": self._show, "load": self._unpack},
            background=memories,
        )

    async def load(self, bench, entries, goal=0, side=0):
        """Hand over a batch, and wait until it is loaded."""
        await self.give(bench, entries, goal, side)
        await bench.until("loaded.valid")
        await bench.pulse("labels_done")
        await bench.pulse("computed")

    async def give(self, bench, entries, goal=0, side=0):
        """Hand over a batch."""
        bench.set({"batch.count": len(entries), "batch.goal": goal, "batch.valid": 1})
        await bench.until("batch.ready")
        bench.set({"batch.valid": 0, "batch.side": side})
        self.entries = entries

    def _show(self, port):
        if port["number"] < len(self.entries):
            return {"entry": dict(zip(("index", "label"), self.entries[port["number"]], strict=True))}
        return None

    def _unpack(self, port):
        self.left = self.cycles if port["start"] else max(self.left - 1, 0)
        return {"busy": self.left > 0}

    def expected(self, entries, raw=False):
        """Commands for entries (record number, label); NF4 records start with scales."""
        mapping, reads = self.mapping, []
        skipped = sum(len(words) for words in mapping.record_words[: max(mapping.first - 1, 0)])
        for record, _ in entries:
            at = CACHE_AT + 16 * record * (mapping.raw_beats if raw else mapping.record_beats)
            if raw:
                beats = skipped * mapping.lanes // 4
                reads.append((at + 16 * beats, mapping.raw_beats - beats))
            else:
                reads.append((at + 16 * mapping.code_beats, mapping.scale_beats))
                reads.append((at + 16 * skipped, mapping.code_beats - skipped))
        return reads


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("raw", [False, True])
def test_batches_are_loaded_in_turn(raw, stall):
    around = Around(stall=stall)

    async def body(bench):
        await around.load(bench, FIRST)
        await around.load(bench, SECOND, side=1)

    seen = around.play(body, raw=raw)
    assert seen.words("load.start") == seen.words("loaded.valid") == [(0, 4), (1, 1)]
    assert seen.words("label.enable") == [(at, label) for at, (_, label) in enumerate(FIRST)] + [(BATCH, 2)]
    assert around.records.reads == around.expected(FIRST + SECOND, raw)
    beats = around.mapping.forward.sample_beats
    assert around.samples.reads == [(SAMPLES_AT + 16 * beats * index, beats) for index, _ in FIRST + SECOND]


@pytest.mark.parametrize("raw", [False, True])
def test_an_adapter_beside_the_last_layer_needs_no_samples(raw):
    around = Around(last_only=True)
    around.play(lambda bench: around.load(bench, FIRST), raw=raw)
    assert around.samples.reads == []
    assert around.records.reads == around.expected(FIRST, raw)
    assert around.records.reads[-1][1] < around.mapping.raw_beats


def test_an_inference_reads_records_by_their_number():
    around = Around()
    around.play(lambda bench: around.load(bench, FIRST, side=1), raw=1, infer=1)
    assert around.records.reads == around.expected([(BATCH + at, 0) for at in range(4)], raw=True)


@pytest.mark.parametrize("infer", [0, 1])
def test_a_batch_is_asked_for_while_the_one_before_is_unpacked(infer):
    """Except in inference; the next batch is requested once the labels of its half are free.

    It is unpacked as soon as its half is free.
    """
    around = Around()
    around.cycles = 400

    async def body(bench):
        await around.give(bench, FIRST)
        await around.give(bench, SECOND, side=1)
        assert len(bench.seen["loaded.valid"]) == infer
        await bench.tick(100)
        assert bench.seen.words("label.enable")[-1] == (BATCH, 2)
        assert len(bench.seen["load.start"]) == 1 + infer
        while len(bench.seen["loaded.valid"]) < 2:
            await bench.tick()
        await around.give(bench, SECOND)
        await bench.tick(100)
        assert bench.seen.words("label.enable")[-1] == (BATCH, 2)
        await bench.pulse("labels_done")
        await bench.tick(100)
        assert bench.seen.words("label.enable")[-1] == (0, 2)
        assert len(bench.seen["load.start"]) == 2
        assert not bench.get("idle")
        await bench.pulse("computed")
        await bench.until("loaded.valid")
        await bench.tick(2)
        assert bench.get("idle")

    seen = around.play(body, raw=infer, infer=infer)
    assert seen.words("load.start") == seen.words("loaded.valid") == [(0, 4), (1, 1), (0, 1)]


@pytest.mark.parametrize("ports", [2, 3])
def test_entries_take_the_ports_in_turn(ports):
    """A record uses the port of the next entry's sample; on 16 columns scales and codes come separately."""
    around = Around(columns=16, ports=ports)
    names = {"sample": [], "scale": [], "record": []}
    dut = around.dut

    def watched(name):
        async def bench(ctx):
            command = getattr(dut, f"{name}_command")
            ctx.set(command.ready, 1)
            async for *_, valid, payload, port in ctx.tick().sample(command.valid, command.payload, dut.port):
                if valid:
                    names[name].append((port, payload.address, payload.beats))

        return bench

    async def body(bench):
        await around.load(bench, FIRST)
        await around.load(bench, SECOND, side=1)

    around.play(body, [watched(name) for name in names])
    entries = FIRST + SECOND
    assert [port for port, *_ in names["sample"]] == [at % ports for at in range(len(entries))]
    for name in ("scale", "record"):
        assert [port for port, *_ in names[name]] == [(at + 1) % ports for at in range(len(entries))]
    reads = [read[1:] for pair in zip(names["scale"], names["record"], strict=True) for read in pair]
    assert reads == around.expected(entries)


def test_while_a_batch_waits_for_the_memory_no_record_is_to_begin():
    around = Around()

    async def body(bench):
        bench.set(settled=0)
        await around.give(bench, SECOND, goal=1)
        await bench.tick(10)
        assert not bench.get("settling")
        await bench.pulse("recorded")
        await bench.until("settling")
        await bench.tick(10)
        assert bench.get("settling")
        bench.set(settled=1)
        await bench.until("load.start")
        assert not bench.get("settling")
        await bench.until("loaded.valid")

    around.play(body)


def test_a_batch_waits_for_its_records_the_memory_and_room():
    around = Around()

    async def body(bench):
        await around.load(bench, FIRST)
        for half in (1, 0):
            await around.give(bench, FIRST, side=half)
            await bench.until("loaded.valid")
        begun = len(bench.seen["load.start"])
        bench.set(settled=0)
        await around.give(bench, SECOND, goal=3)
        for flag in ("recorded", "recorded", "recorded", "settled", "labels_done", "computed"):
            await bench.tick(10)
            assert not bench.get("settling")
            assert len(bench.seen["load.start"]) == begun
            assert not bench.get("idle")
            if flag == "settled":
                bench.set({flag: 1})
            else:
                await bench.pulse(flag)
        await bench.until("loaded.valid")
        for _ in range(2):
            await bench.pulse("labels_done")
            await bench.pulse("computed")
        # records are counted modulo 1024
        bench.set(recorded=1)
        await bench.tick(1020)
        bench.set(recorded=0)
        await around.give(bench, SECOND, goal=1)
        await bench.tick(20)
        assert len(bench.seen["load.start"]) == begun + 1
        bench.set(recorded=1)
        await bench.tick(2)
        bench.set(recorded=0)
        await bench.until("loaded.valid")
        await bench.tick(5)
        assert bench.get("idle")

    around.play(body)
