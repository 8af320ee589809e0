"""Step scheduler, record writer and state loader: memory reads and writes of a step."""

import numpy as np
import pytest

from fabtune.golden.axi.bus import ADDRESS_BITS
from fabtune.golden.cores.zeroth_order.registers import Error
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.job import ZerothOrderStep
from fabtune.golden.zo.mapping import PerturbationMapping
from fabtune.golden.zo.memory_layout import StepOrder, ZerothOrderLayout
from fabtune.hw.zo.steps.record_writer import RecordWriter
from fabtune.hw.zo.steps.state_loader import StateLoader
from fabtune.hw.zo.steps.step_scheduler import StepScheduler

from ...memory import Memory, willing
from ...play import play_interface
from ...simulation import beats_of

MAPPING = Mapping.of(network_from("70 fc3"), 16, 2, byte_inputs=False)
LAYOUT = ZerothOrderLayout(PerturbationMapping(MAPPING).delta_rows, PezoSpec(), 3)
ORDER, SAMPLES, COUNT, BATCH = 0x400, 0x12340, 700_000, 5
ARRIVAL = 6
"""Cycles of a sample's fetch."""


def orders(rng):
    """Steps of one to five samples."""
    sizes = (5, 1, 4, 3)
    return [
        StepOrder(rng.integers(0, COUNT, size), rng.integers(0, 3, size), int(rng.integers(1 << 16))) for size in sizes
    ]


def scheduled(steps, image, stall=0.0, repeats=1):
    """Outputs for a sample schedule, and the fault: whether there is a fault, error code and value."""
    dut, order = StepScheduler(MAPPING.sample_beats, 3, Error), Memory(stall)
    job = {"order": ORDER, "samples": SAMPLES, "sample_count": COUNT, "steps": len(steps), "batch": BATCH}
    order.load(ORDER, image)

    async def around(ctx):
        """A sample arrives some cycles after the fetch began; a beat of the schedule is taken at once."""
        beats, left, taken = dut.order_read.beats, 0, 0
        while True:
            ctx.set(dut.done, left == 1)
            *_, begun, valid, ready = await ctx.tick().sample(dut.begin, beats.valid, beats.ready)
            assert ready or len(order.reads) == taken
            taken += valid & ready
            left = ARRIVAL if begun else max(left - 1, 0)

    async def body(bench):
        assert bench.get("job.over")
        await bench.pulse("job.start", **job, repeats=repeats)
        while not bench.get("fault.failed"):
            await bench.tick()
            if bench.get("job.over") and len(bench.seen["step"]) == len(steps):
                bench.stall = 0
                await bench.tick(20)
                break
        fault.extend(bench.get(f"fault.{name}") for name in ("failed", "error", "address"))

    fault, streams = [], dict.fromkeys(("sample_command", "step", "label"))
    background = [around, willing(dut.room, stall), order.reader(dut.order_read.command, dut.order_read.beats)]
    seen = play_interface(
        dut,
        take=streams,
        watch={"begin": None},
        body=body,
        background=background,
        stall=stall,
        # here `room` toggles
        unheld=["sample_command"],
    )
    assert {beats for _, beats in order.reads} == {1}
    # a sample is requested once the previous sample has arrived
    for begun, asked in zip(seen.cycles("begin"), seen.cycles("sample_command")[1:], strict=False):
        assert asked >= begun + ARRIVAL
    return seen, tuple(fault)


@pytest.mark.parametrize(("stall", "repeats"), [(0.0, 1), (0.5, 1), (0.5, 3)])
def test_steps_labels_and_addresses(stall, repeats):
    steps = orders(np.random.default_rng(2))
    seen, (failed, *_) = scheduled(steps, LAYOUT.order(steps, BATCH).image, stall, repeats)
    assert not failed
    assert seen.words("step") == [{"rate": step.rate, "last_sample": len(step.indices) - 1} for step in steps]
    assert seen.words("label") == [int(label) for step in steps for label in [*step.labels] * repeats]
    stride, fetched = MAPPING.sample_beats * 16, [index for step in steps for index in [*step.indices] * repeats]
    assert seen.words("sample_command") == [
        {"address": int(SAMPLES + index * stride) % 2**ADDRESS_BITS, "beats": MAPPING.sample_beats} for index in fetched
    ]


@pytest.mark.parametrize(
    ("word", "value", "error"),
    [
        (0, 5 << 16, Error.BAD_STEP),
        (0, 1 << 24, Error.BAD_STEP),
        (1, COUNT, Error.BAD_INDEX),
        (2, 3 << 24, Error.BAD_LABEL),
        (8, 255 << 16, Error.BAD_STEP),
    ],
)
def test_wrong_words_are_faults(word, value, error):
    steps = orders(np.random.default_rng(2))
    image = LAYOUT.order(steps, BATCH).image.copy()
    image.view("<u4")[word] = value
    assert scheduled(steps, image)[1] == (1, error, value)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_records(stall):
    rng = np.random.default_rng(4)
    sizes = (5, 1, 4, 3)
    steps = [
        ZerothOrderStep(
            int(rng.integers(7905)),
            int(rng.integers(-(1 << 26), 1 << 26)),
            int(rng.integers(-(1 << 47), 1 << 47)),
            rng.integers(0, 1 << 32, size),
        )
        for size in sizes
    ]
    dut, store, expected = RecordWriter(), Memory(stall, seed=9), Memory()

    async def body(bench):
        await bench.pulse("start", address=0x8000, batch=BATCH)
        for step in steps:
            last = len(step.words) - 1
            await bench.give("sample", [{"word": word, "last": at == last} for at, word in enumerate(step.words)])
            summary = {"position": step.position, "coefficient": step.coefficient, "difference": step.difference}
            await bench.give("summary", [summary])
        await bench.until("empty")

    play_interface(dut, body=body, background=[store.writer(dut.write)], stall=stall)
    image = LAYOUT.records_image(steps, BATCH)
    expected.load(0x8000, image)
    assert {beats for _, beats in store.writes} == {1}
    # beats of missing samples of a step are not written
    assert store.beats == {address: beat for address, beat in expected.beats.items() if beat}
    assert len(store.writes) == len(store.beats)
    read = LAYOUT.records_of(image.reshape(-1), sizes, BATCH)
    assert [(one.position, one.coefficient, one.difference) for one in read] == [
        (one.position, one.coefficient, one.difference) for one in steps
    ]


@pytest.mark.parametrize("settings", [(), ("strategy=pool", "pool.p=32"), ("scale.urng.bits=14",)], ids=str)
def test_states_are_loaded_one_after_the_other(settings):
    spec = build(PezoSpec, settings)
    layout, positions = ZerothOrderLayout(LAYOUT.rows, spec, 3), (5, 1234)

    async def body(bench):
        for position in positions:
            await bench.give("beats", beats_of(layout.state(position).image))
            await bench.until("done")

    seen = play_interface(StateLoader(spec), take={"load": None}, body=body, stall=0.3)
    last = [0] * (spec.state_bits - 1) + [1]
    expected = [
        {"bit": int(bit), "last": end} for at in positions for bit, end in zip(spec.serial(at), last, strict=True)
    ]
    assert seen.words("load") == expected
