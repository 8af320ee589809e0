"""The batch scheduler: what is read for a batch, in which order, and what it waits for."""

import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.hw.lora.job.batch_scheduler import BatchScheduler

from ...play import Memory

NETWORK = "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"
BATCH = 4
SAMPLES_AT, CACHE_AT = 0x1_0000, 0x4_0000
FIRST = [(9, 1), (3, 0), (60, 2), (9, 2)]
SECOND = [(5, 2)]


class Bench:
    """Everything around the scheduler: the sample scheduler's entries, the unpacker, the memory."""

    def __init__(self, play, last_only=False, stall=0.0):
        self.mapping = InstantftSpec(network=NETWORK, batch=BATCH, last_only=last_only).mapping
        self.dut, self.play = BatchScheduler(self.mapping, BATCH), play
        self.samples, self.records = memory(stall), memory(stall, seed=5)
        self.labels, self.loads, self.loaded = [], [], []
        self.entries, self.side = [], 0

    def run(self, body):
        """Simulate ``body(ctx)``."""

        async def start(ctx):
            dut = self.dut
            for name, value in {"samples": SAMPLES_AT, "cache": CACHE_AT}.items():
                ctx.set(getattr(dut.job, name), value)
            for port in (dut.settled, dut.free):
                ctx.set(port, 1)
            await body(ctx)

        background = (self._show, self._watch, self._unpack)
        memories = (self.samples.reader(self.dut.sample_command), self.records.reader(self.dut.record_command))
        self.play(self.dut, start, *background, *memories)

    async def give(self, ctx, entries, goal=0, side=0):
        """Hand a batch over."""
        batch = self.dut.batch
        ctx.set(batch.count, len(entries))
        ctx.set(batch.goal, goal)
        ctx.set(batch.valid, 1)
        await ctx.tick().until(batch.ready)
        ctx.set(batch.valid, 0)
        self.entries = entries
        ctx.set(batch.side, side)

    async def until_loaded(self, ctx, count):
        """Wait until so many batches are loaded."""
        while len(self.loaded) < count:
            await ctx.tick()

    async def _show(self, ctx):
        batch = self.dut.batch
        while True:
            *_, number = await ctx.tick().sample(batch.number)
            if number < len(self.entries):
                index, label = self.entries[number]
                ctx.set(batch.entry, {"index": index, "label": label})

    async def _watch(self, ctx):
        dut = self.dut
        while True:
            *_, enable, address, label, valid, half, count = await ctx.tick().sample(
                *(dut.label.enable, dut.label.address, dut.label.label),
                *(dut.loaded.valid, dut.loaded.half, dut.loaded.count),
            )
            self.labels += [(address, label)] * enable
            self.loaded += [(half, count)] * valid

    async def _unpack(self, ctx):
        load = self.dut.load
        while True:
            *_, start, count, half = await ctx.tick().sample(load.start, load.count, load.half)
            if start:
                self.loads.append((half, count))
                ctx.set(load.busy, 1)
                await ctx.tick().repeat(60)
                ctx.set(load.busy, 0)

    def expected(self, entries, raw=False):
        """Commands for entries (record's number, label): records in NF4 have their scales first."""
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
def test_batches_are_loaded_in_turn(play, raw, stall):
    bench = Bench(memory, play, stall=stall)

    async def body(ctx):
        ctx.set(bench.dut.job.raw, raw)
        await bench.give(ctx, FIRST)
        await bench.until_loaded(ctx, 1)
        await bench.give(ctx, SECOND, side=1)
        await bench.until_loaded(ctx, 2)

    bench.run(body)
    assert bench.loads == bench.loaded == [(0, 4), (1, 1)]
    assert bench.labels == [(at, label) for at, (_, label) in enumerate(FIRST)] + [(BATCH, 2)]
    assert bench.records.reads == bench.expected(FIRST + SECOND, raw)
    beats = bench.mapping.forward.sample_beats
    assert bench.samples.reads == [(SAMPLES_AT + 16 * beats * index, beats) for index, _ in FIRST + SECOND]


@pytest.mark.parametrize("raw", [False, True])
def test_an_adapter_beside_the_last_layer_needs_no_samples(play, raw):
    bench = Bench(memory, play, last_only=True)

    async def body(ctx):
        ctx.set(bench.dut.job.raw, raw)
        await bench.give(ctx, FIRST)
        await bench.until_loaded(ctx, 1)

    bench.run(body)
    assert bench.samples.reads == []
    assert bench.records.reads == bench.expected(FIRST, raw)
    assert bench.records.reads[-1][1] < bench.mapping.raw_beats


def test_an_inference_reads_records_by_their_number(play):
    bench = Bench(memory, play)

    async def body(ctx):
        ctx.set(bench.dut.job.raw, 1)
        ctx.set(bench.dut.job.infer, 1)
        await bench.give(ctx, FIRST, side=1)
        await bench.until_loaded(ctx, 1)

    bench.run(body)
    assert bench.records.reads == bench.expected([(BATCH + at, 0) for at in range(4)], raw=True)


def test_a_batch_waits_for_its_records_the_memory_and_room(play):
    bench = Bench(memory, play)

    async def body(ctx):
        dut = bench.dut
        for port in (dut.settled, dut.free):
            ctx.set(port, 0)
        await bench.give(ctx, SECOND, goal=3)
        for port in (dut.recorded, dut.recorded, dut.recorded, dut.settled, dut.free):
            await ctx.tick().repeat(10)
            assert bench.loads == []
            assert not ctx.get(dut.idle)
            ctx.set(port, 1)
            if port is dut.recorded:
                await ctx.tick()
                ctx.set(port, 0)
        await bench.until_loaded(ctx, 1)
        # the count of records goes on modulo 1024
        for _ in range(1020):
            ctx.set(dut.recorded, 1)
            await ctx.tick()
        ctx.set(dut.recorded, 0)
        await bench.give(ctx, SECOND, goal=1)
        await ctx.tick().repeat(20)
        assert len(bench.loads) == 1
        ctx.set(dut.recorded, 1)
        await ctx.tick().repeat(2)
        ctx.set(dut.recorded, 0)
        await bench.until_loaded(ctx, 2)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.idle)

    bench.run(body)
