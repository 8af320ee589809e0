"""Sample scheduler: new samples, addresses of their records, batches in order, faults."""

import itertools

import numpy as np
import pytest
from amaranth.hdl import Cat

from fabtune.golden.cores.adapters.registers import Error
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.lora.memory_layout import order_image
from fabtune.hw.lora.job.sample_scheduler import SampleScheduler
from fabtune.hw.lora.job_interfaces import JobOptions

from ...memory import Memory
from ...play import play_interface

SPEC = InstantftSpec(network="1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3", batch=4, cache_entries=70)
MAPPING = SPEC.mapping
SAMPLE, RECORD, RAW = (16 * beats for beats in (MAPPING.forward.sample_beats, MAPPING.record_beats, MAPPING.raw_beats))
SAMPLES_AT, ORDER_AT, CACHE_AT = 0x1_0000, 0x2_0000, 0x4_0000


class Around:
    """A scheduler with its surroundings: sample schedule, sample writer, batch scheduler."""

    def __init__(self, shared=False, stall=0.0, cache_entries=SPEC.cache_entries, **options):
        self.dut = SampleScheduler(MAPPING, SPEC.batch, cache_entries, Error, shared, options=JobOptions(**options))
        self.order, self.samples = Memory(stall), Memory(stall, seed=2)
        self.batches, self.seen_rates, self.learnt, self.records, self.missed = [], [], [], [], 0

    def play(self, body, *background):
        """Play until ``body(bench)`` returns."""
        dut = self.dut
        memories = [self.order.reader(dut.order_read.command, dut.order_read.beats)]
        memories.append(self.samples.reader(dut.sample_command))
        watch = {"missed": None, "new_sample.start": "record"}
        return play_interface(
            dut, watch=watch, body=body, background=[*memories, self._write_samples, self._take_batches, *background]
        )

    async def job(self, bench, batches, epochs=1, rates=(), **settings):
        """Run a job of (indices, labels) batches to its end or a fault."""
        self.order.load(ORDER_AT, order_image([(np.array(i), np.array(label)) for i, label in batches], rates))
        for seen in (self.batches, self.seen_rates, self.learnt, self.samples.reads):
            seen.clear()
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
        given |= {"rates": bool(rates)} if self.dut.options.rates else {}
        own = self.dut.job.signature.members
        paths = {name: f"job.{name}" if name in own else f"job.options.{name}" for name in given | settings}
        bench.set({paths[name]: value for name, value in (given | settings).items()})
        while not bench.get("ready"):
            await bench.tick()
        for flag in ("missed", "new_sample.start"):
            bench.seen.fresh(flag)
        await bench.pulse("job.start")
        over = False
        while not over:
            over = bench.get("ended") or bench.get("fault.failed")
            await bench.tick()
        self.records, self.missed = bench.seen.fresh("new_sample.start"), sum(bench.seen.fresh("missed"))

    async def _write_samples(self, ctx):
        """A sample may be requested before the previous one has arrived; arrivals are announced."""
        new, waits = self.dut.new_sample, itertools.cycle((3, 30, 12))
        ctx.set(Cat(new.near, new.ready), 3)
        while True:
            if (await ctx.tick().sample(new.start))[2]:
                ctx.set(Cat(new.near, new.ready), 0)
                for flag in (new.near, new.ready):
                    for _ in range(next(waits)):
                        await ctx.tick()
                    ctx.set(flag, 1)

    async def _take_batches(self, ctx):
        batch, options = self.dut.batch, self.dut.options
        rate = batch.options.rate if options.rates else 0
        learn = batch.options.learn if options.validates else 0
        while True:
            ctx.set(self.dut.over, 1)
            ctx.set(batch.ready, 1)
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


def fault_of(bench):
    """Fault flag, error and value."""
    return tuple(bench.get(f"fault.{name}") for name in ("failed", "error", "address"))


def entries(batches):
    """Entries of (indices, labels) batches."""
    return [list(zip(*batch, strict=True)) for batch in batches]


FIRST = [((3, 1, 60, 2), (0, 1, 2, 0)), ((69, 0, 3, 33), (1, 1, 0, 2)), ((5,), (2,))]
NEW = [3, 1, 60, 2, 69, 0, 33, 5]


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_each_sample_is_recorded_once(stall):
    around = Around(stall=stall)

    async def body(bench):
        await around.job(bench, FIRST)
        assert [batch for batch, _ in around.batches] == entries(FIRST)
        assert [goal for _, goal in around.batches] == [4, 7, 8]
        assert around.records == [CACHE_AT + index * RECORD for index in NEW]
        assert around.samples.reads == [(SAMPLES_AT + index * SAMPLE, SAMPLE // 16) for index in NEW]
        assert around.missed == len(NEW)
        await bench.tick(2)
        # another job on the same cache: one new sample, the count continues
        second = [((0, 1, 2, 4), (0, 0, 0, 0))]
        await around.job(bench, second)
        assert around.batches == [(entries(second)[0], 9)]
        assert around.records == [CACHE_AT + 4 * RECORD]

    around.play(body)


def test_epochs_follow_each_other():
    around = Around()

    async def body(bench):
        epochs = [FIRST, [FIRST[1], FIRST[0], FIRST[2]], FIRST]
        await around.job(bench, [batch for epoch in epochs for batch in epoch], epochs=3)
        assert [batch for batch, _ in around.batches] == [one for epoch in epochs for one in entries(epoch)]
        assert around.missed == len(NEW)
        # every batch starts on a new beat
        assert around.order.reads == [(ORDER_AT + 16 * at, 1) for at in range(9)]

    around.play(body)


def test_an_inference_goes_past_the_cache():
    around = Around()

    async def body(bench):
        labels = [((3, 99, 60, 2), (7, 7, 7, 7)), ((1, 1, 1, 1), (9, 9, 9, 9)), ((5,), (0,))]
        await around.job(bench, labels, infer=1, raw=1)
        # two batches have separate records, whatever the indices
        numbers = [*range(4), *range(4, 8), 0]
        assert around.records == [CACHE_AT + number * RAW for number in numbers]
        assert around.missed == 9
        await bench.tick(2)
        await around.job(bench, FIRST)
        assert around.missed == len(NEW)

    around.play(body)


def test_without_a_cache_every_sample_is_new():
    around = Around(cache_entries=0)

    async def body(bench):
        # three batches alternate, and the second job continues with the other half
        for numbers in ([*range(8), 0], [*range(4, 8), *range(4), 4]):
            await around.job(bench, FIRST, raw=1)
            assert around.records == [CACHE_AT + number * RAW for number in numbers]
            assert around.missed == 9
            await bench.tick(2)
        # labels and indices are checked as with a cache
        await around.job(bench, [((9,), (0,))], cache_entries=9)
        assert bench.get("fault.error") == Error.BAD_INDEX

    around.play(body)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_a_batch_has_its_rate(stall):
    around = Around(stall=stall, rates=True)

    async def body(bench):
        rates = [1, 131_071, 70_000]
        await around.job(bench, FIRST, rates=rates)
        assert [batch for batch, _ in around.batches] == entries(FIRST)
        assert around.seen_rates == rates
        # a batch that fills a beat takes another beat
        assert around.order.reads == [(ORDER_AT, 2), (ORDER_AT + 32, 2), (ORDER_AT + 64, 1)]
        await bench.tick(2)
        await around.job(bench, FIRST)
        assert [batch for batch, _ in around.batches] == entries(FIRST)

    around.play(body)


@pytest.mark.parametrize("rate", [0, 1 << 17, 1 << 31, 0xFFFFFFFF])
def test_a_wrong_rate_is_a_fault(rate):
    around = Around(rates=True)

    async def body(bench):
        await around.job(bench, FIRST, rates=[5, rate, 5])
        assert fault_of(bench) == (1, Error.BAD_RATE, rate)
        await bench.tick(20)
        assert [batch for batch, _ in around.batches] == entries(FIRST[:1])

    around.play(body)


@pytest.mark.parametrize(("stop", "low_after", "ran"), [(1, 2, 2), (1, 9, 3), (1, 1, 1), (0, 1, 3)])
def test_a_job_ends_with_an_epoch_whose_loss_is_low(stop, low_after, ran):
    around = Around(stops=True)
    begun = {}

    async def watch(ctx):
        while True:
            await ctx.tick()
            ctx.set(around.dut.low, len(around.batches) >= low_after * len(FIRST))
            if ctx.get(around.dut.order_read.command.valid):
                begun.setdefault(len(around.batches), ctx.get(around.dut.over))

    async def body(bench):
        await around.job(bench, FIRST * 3, epochs=3, stop=stop)
        assert [batch for batch, _ in around.batches] == entries(FIRST) * ran

    around.play(body, watch)
    # an epoch begins when everything is done
    assert not stop or all(over for count, over in begun.items() if count % len(FIRST) == 0)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_an_epoch_is_followed_by_its_validation(stall):
    around = Around(stall=stall, rates=True, validates=True)
    behind = [((60, 2, 7, 8), (0, 1, 2, 0)), ((9,), (2,))]

    async def body(bench):
        rates = [1, 131_071, 70_000, None, None, 2, 3, 4, None, None]
        await around.job(bench, (FIRST + behind) * 2, 2, rates=rates, samples_per_epoch=9, validation_samples=5)
        assert [batch for batch, _ in around.batches] == entries(FIRST + behind) * 2
        assert around.learnt == [1, 1, 1, 0, 0] * 2
        learnt = [rate for rate, learn in zip(around.seen_rates, around.learnt, strict=True) if learn]
        assert learnt == [rate for rate in rates if rate is not None]
        # without a rate, four entries fill a beat
        assert around.order.reads[3:5] == [(ORDER_AT + 80, 1), (ORDER_AT + 96, 1)]
        assert around.missed == len({*NEW, 7, 8, 9})
        await bench.tick(2)
        # without validation, and without rates
        await around.job(bench, FIRST * 2, 2, validation_samples=0)
        assert [batch for batch, _ in around.batches] == entries(FIRST) * 2
        assert around.learnt == [1] * 6

    around.play(body)


def test_a_job_with_validation_ends_behind_one():
    around = Around(stops=True, validates=True)

    async def body(bench):
        bench.set(low=1)
        await around.job(bench, FIRST * 2, 2, samples_per_epoch=4, validation_samples=5, stop=1)
        assert [batch for batch, _ in around.batches] == entries(FIRST)
        assert around.learnt == [1, 0, 0]

    around.play(body)


def test_records_are_forgotten():
    around = Around(shared=True)

    async def body(bench):
        await around.job(bench, FIRST)
        await bench.tick()
        await bench.pulse("forget")
        assert not bench.get("ready")
        await around.job(bench, FIRST)
        assert around.missed == len(NEW)
        await bench.tick()
        # inference writes at the address of the cache
        await around.job(bench, FIRST[:1], infer=1, raw=1)
        await bench.tick()
        await around.job(bench, FIRST)
        assert around.missed == len(NEW)

    around.play(body)


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
def test_a_wrong_entry_is_a_fault(batch, settings, error, value):
    around = Around()

    async def body(bench):
        await around.job(bench, [batch], **settings)
        for _ in range(3):
            assert fault_of(bench) == (1, error, value)
            await bench.tick()
        assert around.batches == []

    around.play(body)


def test_the_last_index_and_label_are_right():
    around = Around()

    async def body(bench):
        await around.job(bench, [((8,), (2,))], cache_entries=9)
        assert not bench.get("fault.failed")
        assert around.missed == 1

    around.play(body)
