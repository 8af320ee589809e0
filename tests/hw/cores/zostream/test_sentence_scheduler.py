"""Sentence scheduler, pass memory and sample reads: from a sample schedule to the rows of each pass."""

import numpy as np
import pytest

from fabtune.golden.axi.bus import ADDRESS_BITS
from fabtune.golden.cores.zostream.memory_layout import ZostreamLayout
from fabtune.golden.cores.zostream.pass_memory import passes_of
from fabtune.golden.cores.zostream.registers import Error
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.zo.memory_layout import StepOrder, ZerothOrderLayout
from fabtune.hw.cores.zostream.pass_memory import PassMemory
from fabtune.hw.cores.zostream.sample_reads import SampleReads
from fabtune.hw.cores.zostream.sentence_scheduler import SentenceScheduler

from ...memory import Memory
from ...play import play_interface

TOKENS, FEATURES, BATCH, LABELS, CAPACITY = 16, 40, 5, 7, 20
ORDER, INDEX, SAMPLES, CACHE = 0x400, 0x2000, 0x12340, 0x50000
LENGTHS = (3, 1, 10, 2, 7, 4, 5, 1, 9)
TOKEN_BEATS = 12


def steps_of(rng):
    return [
        StepOrder(rng.integers(0, len(LENGTHS), size), rng.integers(0, LABELS, size), int(rng.integers(1 << 16)))
        for size in (5, 1, 4)
    ]


def memory_of(steps, stall=0.0):
    """Sample schedule, index and samples, and the first beat of each sample."""
    memory = Memory(stall)
    sentences = [np.ones((length, FEATURES), int) for length in LENGTHS]
    index, samples = ZostreamLayout.samples(sentences, 3 * np.arange(len(LENGTHS)))
    order = ZerothOrderLayout(range(1), PezoSpec(), LABELS).order(steps, BATCH)
    for address, region in ((ORDER, order), (INDEX, index), (SAMPLES, samples)):
        memory.load(address, region.image)
    return memory, index.image.view("<u4")


def scheduled(steps, memory, stall=0.0, **job):
    """Run a job to its end or to a fault; returns observed words, and the fault."""
    dut, fault = SentenceScheduler(TOKENS, Error), []
    job = {"order": ORDER, "index": INDEX, "samples": SAMPLES, "sample_count": len(LENGTHS), "repeats": 1} | job
    job = {"cache": CACHE, "turns": 1} | job
    job |= {"steps": len(steps), "batch": BATCH, "labels": LABELS, "capacity": CAPACITY}

    async def body(bench):
        await bench.pulse("job.start", **job)
        while not bench.get("job.over") and not bench.get("fault.failed"):
            await bench.tick()
        await bench.tick(20)
        fault.extend(bench.get(f"fault.{name}") for name in ("failed", "error", "address"))

    background = [memory.reader(dut.order_read.command, dut.order_read.beats)]
    taken = dict.fromkeys(("step", "sentence"))
    return play_interface(dut, take=taken, body=body, background=background, stall=stall), tuple(fault)


@pytest.mark.parametrize(
    ("stall", "repeats", "turns", "upper", "pooled"),
    [(0.0, 1, 1, 0, 1), (0.4, 2, 1, 0, 0), (0.0, 6, 3, 0, 0), (0.4, 4, 2, 0, 1), (0.0, 1, 1, 1, 0)],
)
def test_steps_and_sentences(stall, repeats, turns, upper, pooled):
    steps = steps_of(np.random.default_rng(2))
    memory, firsts = memory_of(steps, stall)
    seen, (failed, *_) = scheduled(steps, memory, stall, repeats=repeats, turns=turns, upper=upper, pooled=pooled)
    assert not failed
    assert seen.words("step") == [{"rate": step.rate, "last_sample": len(step.indices) - 1} for step in steps]
    expected = []
    for step in steps:
        last = [0] * (len(step.indices) - 1) + [1]
        # the first iteration reads the samples, later iterations read the stored rows
        expected += [
            {
                "beat": SAMPLES // 16 + int(firsts[one]) + 1,
                "kept": CACHE // 16 + 3 * int(one),
                "tokens": 1 if kept and pooled else LENGTHS[one],
                "label": label,
                "upper": kept,
                "last": end,
            }
            for kept in [int(upper or time % turns != 0) for time in range(repeats)]
            for one, label, end in zip(step.indices, step.labels.tolist(), last, strict=True)
        ]
    assert seen.words("sentence") == expected


@pytest.mark.parametrize(
    ("index", "label", "tokens", "fault"),
    [
        (len(LENGTHS), 0, 1, (Error.BAD_INDEX, len(LENGTHS))),
        (2, LABELS, 1, (Error.BAD_LABEL, 2 | LABELS << 24)),
        (2, 0, 0, (Error.BAD_TOKENS, 0)),
        (2, 0, CAPACITY // 2 + 1, (Error.BAD_TOKENS, CAPACITY // 2 + 1)),
        (2, 0, 1 << 31 | 1, (Error.BAD_TOKENS, 1 << 31 | 1)),
    ],
)
def test_wrong_samples_are_faults(index, label, tokens, fault):
    steps = [StepOrder(np.array([1, index]), np.array([0, label]), 3)]
    memory, firsts = memory_of(steps)
    memory.beats[SAMPLES + 16 * int(firsts[2])] = tokens
    seen, (failed, *found) = scheduled(steps, memory)
    assert (failed, *found) == (1, *fault)
    assert len(seen.words("sentence")) == 1


@pytest.mark.parametrize(
    ("lengths", "capacity", "stall"),
    [((3, 1, 10, 2, 7, 1, 9, 1), 20, 0.0), ((1,) * 23, 21, 0.5), ((16, 16, 1, 15, 16), 32, 0.0)],
)
def test_passes_are_those_of_golden(lengths, capacity, stall):
    dut = PassMemory(TOKENS)
    words = [
        {"beat": 100 + at, "kept": at, "tokens": length, "label": at, "upper": 1, "last": at == len(lengths) - 1}
        for at, length in enumerate(lengths)
    ]
    found = []

    async def body(bench):
        last = False
        while not last:
            await bench.until("complete")
            names = ("sentences", "rows", "longest", "last")
            count, *told, last = (bench.get(name) for name in names)
            entries = await bench.read("number", range(count), "entry")
            found.append((count, *told, [one["label"] for one in entries]))
            assert bench.get("upper")
            assert [(one["beat"], one["kept"]) for one in entries] == [
                (100 + one["label"], one["label"]) for one in entries
            ]
            assert [one["tokens"] for one in entries] == [lengths[one["label"]] for one in entries]
            await bench.pulse("clear")

    play_interface(dut, give={"sentence": words}, body=body, wires={"capacity": capacity}, stall=stall)
    expected = passes_of(lengths, capacity)
    assert found == [(len(one), sum(own := lengths[one.start : one.stop]), max(own), list(one)) for one in expected]


@pytest.mark.parametrize(("kept", "stall"), [(0, 0.0), (1, 0.4)])
def test_a_read_for_each_token(kept, stall):
    dut, lengths = SampleReads(TOKENS), (2, 1, 3)

    async def entries(ctx):
        """Memory of the pass."""
        while True:
            number = (await ctx.tick().sample(dut.number))[2]
            places = {"beat": 1000 * number + 500 * kept, "kept": 1000 * number + 500 * (1 - kept)}
            ctx.set(dut.entry, {**places, "tokens": lengths[number % 3], "label": 0})

    async def body(bench):
        for _ in range(2):
            await bench.pulse("start", sentences=3, kept=kept, token_beats=TOKEN_BEATS)
            await bench.until("done")

    seen = play_interface(
        dut, take=dict.fromkeys(("sentence", "command")), body=body, background=[entries], stall=stall
    )
    firsts = [{"first": 0, "length": 2}, {"first": 2, "length": 1}, {"first": 3, "length": 3}]
    assert seen.words("sentence") == 2 * firsts
    reads = [(1000 * at + TOKEN_BEATS * token) * 16 for at, one in enumerate(lengths) for token in range(one)]
    assert max(reads) < 1 << ADDRESS_BITS
    assert seen.words("command") == 2 * [{"address": address, "beats": TOKEN_BEATS} for address in reads]
