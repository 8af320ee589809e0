"""The sample scheduler: what is new, where its record goes, batches in order, faults."""

import numpy as np
import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.instantft.registers import Error
from fabtune.golden.lora.images import order_image
from fabtune.hw.lora.job.sample_scheduler import SampleScheduler
from fabtune.hw.lora.job_interfaces import JobOptions

SPEC = InstantftSpec(network="1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3", batch=4, cache_entries=70)
MAPPING = SPEC.mapping
SAMPLE, RECORD, RAW = (16 * beats for beats in (MAPPING.forward.sample_beats, MAPPING.record_beats, MAPPING.raw_beats))
SAMPLES_AT, ORDER_AT, CACHE_AT = 0x1_0000, 0x2_0000, 0x4_0000


class Bench:
    """Everything around the scheduler: the order list, the sample writer, the batch scheduler."""

    def __init__(self, memory, play, shared=False, stall=0.0, cache_entries=SPEC.cache_entries, **options):
        self.dut = SampleScheduler(MAPPING, SPEC.batch, cache_entries, Error, shared, options=JobOptions(**options))
        self.memory, self._play, self.stall = memory(stall), play, stall
        self.batches, self.records, self.seen_rates, self.learnt, self.missed = [], [], [], [], 0
        self.samples = memory(stall, seed=2)
        self.watch = None

    def run(self, body):
        """Simulate ``body(ctx)``."""
        dut = self.dut
        self._play(
            dut,
            body,
            self.memory.reader(dut.order_read.command, dut.order_read.beats),
            self.samples.reader(dut.sample_command),
            self._write_samples,
            self._take_batches,
            self._count,
            *((self.watch,) if self.watch else ()),
        )

    async def job(self, ctx, batches, epochs=1, limit=None, rates=(), **settings):
        """Start a job on (indices, labels) batches, and wait for its end or a fault."""
        dut = self.dut
        self.memory.load(ORDER_AT, order_image([(np.array(i), np.array(label)) for i, label in batches], rates))
        if dut.options.rates:
            ctx.set(dut.job.options.rates, bool(rates))
        for seen in (self.batches, self.records, self.seen_rates, self.learnt):
            seen.clear()
        self.samples.reads.clear()
        self.missed = 0
        given = {
            "samples": SAMPLES_AT,
            "order": ORDER_AT,
            "cache": CACHE_AT,
            "cache_entries": SPEC.cache_entries,
            "samples_per_epoch": sum(len(indices) for indices, _ in batches) // epochs,
            "epochs": epochs,
            "batch": max(len(indices) for indices, _ in batches),
            "raw": 0,
            "infer": 0,
        }
        for name, value in (given | settings).items():
            owner = dut.job if name in dut.job.signature.members else dut.job.options
            ctx.set(getattr(owner, name), value)
        while not ctx.get(dut.ready):
            await ctx.tick()
        ctx.set(dut.job.start, 1)
        await ctx.tick()
        ctx.set(dut.job.start, 0)
        over = False
        while not over:
            *_, ended, failed = await ctx.tick().sample(dut.ended, dut.fault.failed)
            over = ended or failed

    async def _write_samples(self, ctx):
        new = self.dut.new_sample
        ctx.set(new.ready, 1)
        while True:
            *_, start, record = await ctx.tick().sample(new.start, new.record)
            if start:
                self.records.append(record)
                ctx.set(new.ready, 0)
                await ctx.tick().repeat(3)
                ctx.set(new.done, 1)
                await ctx.tick()
                ctx.set(new.done, 0)
                ctx.set(new.ready, 1)

    async def _take_batches(self, ctx):
        batch = self.dut.batch
        while True:
            ctx.set(self.dut.over, 1)
            ctx.set(batch.ready, 1)
            options = self.dut.options
            rate, learn = (
                (batch.options.rate if options.rates else 0),
                (batch.options.learn if options.validates else 0),
            )
            _, _, valid, count, goal, *own = await ctx.tick().sample(batch.valid, batch.count, batch.goal, rate, learn)
            if not valid:
                continue
            ctx.set(self.dut.over, 0)
            ctx.set(batch.ready, 0)
            await ctx.tick()
            entries = []
            for number in range(count):
                ctx.set(batch.number, number)
                await ctx.tick().repeat(2)
                entry = ctx.get(batch.entry)
                entries.append((entry.index, entry.label))
            self.batches.append((entries, goal))
            self.seen_rates.append(own[0])
            self.learnt.append(own[1])

    async def _count(self, ctx):
        while True:
            *_, missed = await ctx.tick().sample(self.dut.missed)
            self.missed += missed


def entries(batches):
    """Entries of (indices, labels) batches."""
    return [list(zip(*batch, strict=True)) for batch in batches]


FIRST = [((3, 1, 60, 2), (0, 1, 2, 0)), ((69, 0, 3, 33), (1, 1, 0, 2)), ((5,), (2,))]
NEW = [3, 1, 60, 2, 69, 0, 33, 5]


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_each_sample_is_recorded_once(memory, play, stall):
    bench = Bench(memory, play, stall=stall)

    async def body(ctx):
        await bench.job(ctx, FIRST)
        assert [batch for batch, _ in bench.batches] == entries(FIRST)
        assert [goal for _, goal in bench.batches] == [4, 7, 8]
        assert bench.records == [CACHE_AT + index * RECORD for index in NEW]
        assert bench.samples.reads == [(SAMPLES_AT + index * SAMPLE, SAMPLE // 16) for index in NEW]
        assert bench.missed == len(NEW)
        await ctx.tick().repeat(2)
        # a second job on the same cache: one new sample, and the count goes on
        second = [((0, 1, 2, 4), (0, 0, 0, 0))]
        await bench.job(ctx, second)
        assert bench.batches == [(entries(second)[0], 9)]
        assert bench.records == [CACHE_AT + 4 * RECORD]

    bench.run(body)


def test_epochs_follow_each_other(memory, play):
    bench = Bench(memory, play)

    async def body(ctx):
        epochs = [FIRST, [FIRST[1], FIRST[0], FIRST[2]], FIRST]
        await bench.job(ctx, [batch for epoch in epochs for batch in epoch], epochs=3)
        assert [batch for batch, _ in bench.batches] == [one for epoch in epochs for one in entries(epoch)]
        assert bench.missed == len(NEW)
        # every batch begins on a beat of its own
        assert bench.memory.reads == [(ORDER_AT + 16 * at, 1) for at in range(9)]

    bench.run(body)


def test_an_inference_goes_past_the_cache(memory, play):
    bench = Bench(memory, play)

    async def body(ctx):
        labels = [((3, 99, 60, 2), (7, 7, 7, 7)), ((1, 1, 1, 1), (9, 9, 9, 9)), ((5,), (0,))]
        await bench.job(ctx, labels, infer=1, raw=1)
        # two batches have records of their own, whatever the indices
        numbers = [*range(4), *range(4, 8), 0]
        assert bench.records == [CACHE_AT + number * RAW for number in numbers]
        assert bench.missed == 9
        await ctx.tick().repeat(2)
        await bench.job(ctx, FIRST)
        assert bench.missed == len(NEW)

    bench.run(body)


def test_without_a_cache_every_sample_is_new(memory, play):
    bench = Bench(memory, play, cache_entries=0)

    async def body(ctx):
        # three batches take turns, and the second job goes on with the other half
        for numbers in ([*range(8), 0], [*range(4, 8), *range(4), 4]):
            await bench.job(ctx, FIRST, raw=1)
            assert bench.records == [CACHE_AT + number * RAW for number in numbers]
            assert bench.missed == 9
            await ctx.tick().repeat(2)
        # labels and indices are checked as with one
        await bench.job(ctx, [((9,), (0,))], cache_entries=9)
        assert ctx.get(bench.dut.fault.error) == Error.BAD_INDEX

    bench.run(body)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_a_batch_has_its_rate(memory, play, stall):
    bench = Bench(memory, play, stall=stall, rates=True)

    async def body(ctx):
        rates = [1, 131_071, 70_000]
        await bench.job(ctx, FIRST, rates=rates)
        assert [batch for batch, _ in bench.batches] == entries(FIRST)
        assert bench.seen_rates == rates
        # a batch of as many entries as a beat has words takes one more
        assert bench.memory.reads == [(ORDER_AT, 2), (ORDER_AT + 32, 2), (ORDER_AT + 64, 1)]
        await ctx.tick().repeat(2)
        await bench.job(ctx, FIRST)
        assert [batch for batch, _ in bench.batches] == entries(FIRST)

    bench.run(body)


@pytest.mark.parametrize("rate", [0, 1 << 17, 1 << 31, 0xFFFFFFFF])
def test_a_wrong_rate_is_a_fault(memory, play, rate):
    bench = Bench(memory, play, rates=True)

    async def body(ctx):
        await bench.job(ctx, FIRST, rates=[5, rate, 5])
        fault = bench.dut.fault
        assert (ctx.get(fault.failed), ctx.get(fault.error), ctx.get(fault.address)) == (1, Error.BAD_RATE, rate)
        await ctx.tick().repeat(20)
        assert [batch for batch, _ in bench.batches] == entries(FIRST[:1])

    bench.run(body)


@pytest.mark.parametrize(("stop", "low_after", "ran"), [(1, 2, 2), (1, 9, 3), (1, 1, 1), (0, 1, 3)])
def test_a_job_ends_with_an_epoch_whose_loss_is_low(memory, play, stop, low_after, ran):
    bench = Bench(memory, play, stops=True)
    begun = {}

    async def watch(ctx):
        while True:
            await ctx.tick()
            ctx.set(bench.dut.low, len(bench.batches) >= low_after * len(FIRST))
            if ctx.get(bench.dut.order_read.command.valid):
                begun.setdefault(len(bench.batches), ctx.get(bench.dut.over))

    bench.watch = watch

    async def body(ctx):
        await bench.job(ctx, FIRST * 3, epochs=3, stop=stop)
        assert [batch for batch, _ in bench.batches] == entries(FIRST) * ran

    bench.run(body)
    # an epoch begins when all is done
    assert not stop or all(over for count, over in begun.items() if count % len(FIRST) == 0)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_an_epoch_is_followed_by_its_validation(memory, play, stall):
    bench = Bench(memory, play, stall=stall, rates=True, validates=True)
    behind = [((60, 2, 7, 8), (0, 1, 2, 0)), ((9,), (2,))]

    async def body(ctx):
        rates = [1, 131_071, 70_000, None, None, 2, 3, 4, None, None]
        await bench.job(ctx, (FIRST + behind) * 2, 2, rates=rates, samples_per_epoch=9, validation_samples=5)
        assert [batch for batch, _ in bench.batches] == entries(FIRST + behind) * 2
        assert bench.learnt == [1, 1, 1, 0, 0] * 2
        learnt = [rate for rate, learn in zip(bench.seen_rates, bench.learnt, strict=True) if learn]
        assert learnt == [rate for rate in rates if rate is not None]
        # without a rate, four entries fill a beat
        assert bench.memory.reads[3:5] == [(ORDER_AT + 80, 1), (ORDER_AT + 96, 1)]
        assert bench.missed == len({*NEW, 7, 8, 9})
        await ctx.tick().repeat(2)
        # without one, and without rates
        await bench.job(ctx, FIRST * 2, 2, validation_samples=0)
        assert [batch for batch, _ in bench.batches] == entries(FIRST) * 2
        assert bench.learnt == [1] * 6

    bench.run(body)


def test_a_job_with_validation_ends_behind_one(memory, play):
    bench = Bench(memory, play, stops=True, validates=True)

    async def body(ctx):
        ctx.set(bench.dut.low, 1)
        await bench.job(ctx, FIRST * 2, 2, samples_per_epoch=4, validation_samples=5, stop=1)
        assert [batch for batch, _ in bench.batches] == entries(FIRST)
        assert bench.learnt == [1, 0, 0]

    bench.run(body)


def test_records_are_forgotten(memory, play):
    bench = Bench(memory, play, shared=True)

    async def body(ctx):
        await bench.job(ctx, FIRST)
        await ctx.tick()
        ctx.set(bench.dut.forget, 1)
        await ctx.tick()
        ctx.set(bench.dut.forget, 0)
        assert not ctx.get(bench.dut.ready)
        await bench.job(ctx, FIRST)
        assert bench.missed == len(NEW)
        await ctx.tick()
        # the cache is where an inference writes
        await bench.job(ctx, FIRST[:1], infer=1, raw=1)
        await ctx.tick()
        await bench.job(ctx, FIRST)
        assert bench.missed == len(NEW)

    bench.run(body)


@pytest.mark.parametrize(
    ("batch", "settings", "error", "value"),
    [
        (((1, 70, 2, 3), (0, 0, 0, 0)), {}, Error.BAD_INDEX, 70),
        (((1, 2, 9, 3), (0, 0, 0, 0)), {"cache_entries": 9}, Error.BAD_INDEX, 9),
        (((1, 2, 3, 0xFFFFFF), (0, 0, 0, 0)), {}, Error.BAD_INDEX, 0xFFFFFF),
        (((1, 2, 3, 4), (0, 2, 3, 0)), {}, Error.BAD_LABEL, 3),
        (((1, 70, 3, 4), (0, 255, 3, 0)), {}, Error.BAD_INDEX, 70),
    ],
)
def test_a_wrong_entry_is_a_fault(memory, play, batch, settings, error, value):
    bench = Bench(memory, play)

    async def body(ctx):
        await bench.job(ctx, [batch], **settings)
        fault = bench.dut.fault
        for _ in range(3):
            assert (ctx.get(fault.failed), ctx.get(fault.error), ctx.get(fault.address)) == (1, error, value)
            await ctx.tick()
        assert bench.batches == []

    bench.run(body)


def test_the_last_index_and_label_are_right(memory, play):
    bench = Bench(memory, play)

    async def body(ctx):
        await bench.job(ctx, [((8,), (2,))], cache_entries=9)
        assert not ctx.get(bench.dut.fault.failed)
        assert bench.missed == 1

    bench.run(body)
