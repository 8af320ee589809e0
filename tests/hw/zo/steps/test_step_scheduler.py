"""Step scheduler, record writer and state loader: what a step reads and writes in memory."""

import numpy as np
import pytest

from fabtune.golden.axi.bus import ADDRESS_BITS
from fabtune.golden.cores.zotrain.registers import Error
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

MAPPING = Mapping.of(network_from("70 fc3"), 16, 2, byte_inputs=False)
LAYOUT = ZerothOrderLayout(PerturbationMapping(MAPPING).delta_rows, PezoSpec(), 3)
ORDER, SAMPLES, COUNT, BATCH = 0x400, 0x12340, 700_000, 5


def orders(rng):
    """Steps of one to five samples."""
    sizes = (5, 1, 4, 3)
    return [
        StepOrder(rng.integers(0, COUNT, size), rng.integers(0, 3, size), int(rng.integers(1 << 16))) for size in sizes
    ]


def scheduled(steps, image, play, stall=0.0, batch=BATCH, repeats=1):
    """Steps, labels and sample addresses that come out, and the fault if there is one."""
    dut, rng = StepScheduler(MAPPING.sample_beats, 3, Error), np.random.default_rng(8)
    found = {"steps": [], "labels": [], "addresses": [], "fault": None}

    async def body(ctx):
        for name, value in (
            ("order", ORDER), ("samples", SAMPLES), ("sample_count", COUNT), ("steps", len(steps)), ("batch", batch),
            ("repeats", repeats),
        ):  # fmt: skip
            ctx.set(getattr(dut.job, name), value)
        assert ctx.get(dut.job.over)
        ctx.set(dut.job.start, 1)
        await ctx.tick()
        ctx.set(dut.job.start, 0)
        reading, arriving = None, 0
        for _ in range(6000 * repeats):
            beats, command = dut.order_read.beats, dut.order_read.command
            for port in (command, dut.sample_command, dut.step, dut.label):
                ctx.set(port.ready, rng.random() >= stall)
            ctx.set(dut.room, rng.random() >= stall)
            ctx.set(beats.valid, reading is not None and rng.random() >= stall)
            if reading is not None:
                ctx.set(beats.payload, int.from_bytes(image[reading - ORDER :][:16].tobytes(), "little"))
                assert ctx.get(beats.ready)
                if ctx.get(beats.valid):
                    reading = None
            if ctx.get(command.valid) and ctx.get(command.ready):
                assert ctx.get(command.payload.beats) == 1
                reading = ctx.get(command.payload.address)
            ctx.set(dut.done, arriving == 1)
            arriving = max(arriving - 1, 0)
            if ctx.get(dut.begin):
                arriving = 6
            if ctx.get(dut.sample_command.valid) and ctx.get(dut.sample_command.ready):
                assert arriving == 0
                assert ctx.get(dut.sample_command.payload.beats) == MAPPING.sample_beats
                found["addresses"].append(ctx.get(dut.sample_command.payload.address))
            if ctx.get(dut.step.valid) and ctx.get(dut.step.ready):
                found["steps"].append((ctx.get(dut.step.payload.rate), ctx.get(dut.step.payload.last_sample)))
            if ctx.get(dut.label.valid) and ctx.get(dut.label.ready):
                found["labels"].append(ctx.get(dut.label.payload))
            if ctx.get(dut.fault.failed):
                found["fault"] = Error(ctx.get(dut.fault.error)), ctx.get(dut.fault.address)
                return
            await ctx.tick()
            if ctx.get(dut.job.over) and len(found["steps"]) == len(steps):
                break
        for port in (dut.step, dut.label):
            ctx.set(port.ready, 1)
        for _ in range(20):
            if ctx.get(dut.label.valid):
                found["labels"].append(ctx.get(dut.label.payload))
            await ctx.tick()

    play(dut, body)
    return found


@pytest.mark.parametrize(("stall", "repeats"), [(0.0, 1), (0.5, 1), (0.5, 3)])
def test_steps_labels_and_addresses(stall, repeats, play):
    steps = orders(np.random.default_rng(2))
    found = scheduled(steps, LAYOUT.order(steps, BATCH).image, play, stall, repeats=repeats)
    assert found["fault"] is None
    assert found["steps"] == [(step.rate, len(step.indices) - 1) for step in steps]
    assert found["labels"] == [int(label) for step in steps for label in [*step.labels] * repeats]
    stride, fetched = MAPPING.sample_beats * 16, [index for step in steps for index in [*step.indices] * repeats]
    assert found["addresses"] == [int(SAMPLES + index * stride) % 2**ADDRESS_BITS for index in fetched]


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
def test_wrong_words_are_faults(word, value, error, play):
    steps = orders(np.random.default_rng(2))
    image = LAYOUT.order(steps, BATCH).image.copy()
    image.view("<u4")[word] = value
    assert scheduled(steps, image, play)["fault"] == (error, value)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_records(stall, play):
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
    dut, store = RecordWriter(), {}

    async def body(ctx):
        for name, value in (("address", 0x8000), ("batch", BATCH), ("start", 1)):
            ctx.set(getattr(dut, name), value)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for step in steps:
            for number, word in enumerate(step.words.tolist()):
                ctx.set(dut.sample.payload, {"word": word, "last": int(number == len(step.words) - 1)})
                ctx.set(dut.sample.valid, 1)
                await ctx.tick().until(dut.sample.ready)
                ctx.set(dut.sample.valid, 0)
            summary = {"position": step.position, "coefficient": step.coefficient, "difference": step.difference}
            ctx.set(dut.summary.payload, summary)
            ctx.set(dut.summary.valid, 1)
            await ctx.tick().until(dut.summary.ready)
            ctx.set(dut.summary.valid, 0)
        while not ctx.get(dut.empty):
            await ctx.tick()
        await ctx.tick()

    async def memory(ctx):
        own, address = np.random.default_rng(9), None
        while True:
            ctx.set(dut.write.command.ready, own.random() >= stall)
            ctx.set(dut.write.beats.ready, own.random() >= stall)
            if ctx.get(dut.write.command.valid) and ctx.get(dut.write.command.ready):
                assert address is None
                assert ctx.get(dut.write.command.payload.beats) == 1
                address = ctx.get(dut.write.command.payload.address)
            elif ctx.get(dut.write.beats.valid) and ctx.get(dut.write.beats.ready):
                store[address] = ctx.get(dut.write.beats.payload).to_bytes(16, "little")
                address = None
            await ctx.tick()

    play(dut, body, memory)
    image = LAYOUT.records_image(steps, BATCH).reshape(-1, 16)
    written = np.array([row.any() for row in image])
    assert sorted(store) == [0x8000 + 16 * int(at) for at in np.flatnonzero(written)]
    for address, beat in store.items():
        assert beat == image[(address - 0x8000) // 16].tobytes()
    read = LAYOUT.records_of(image.reshape(-1), sizes, BATCH)
    assert [(one.position, one.coefficient, one.difference) for one in read] == [
        (one.position, one.coefficient, one.difference) for one in steps
    ]


@pytest.mark.parametrize("settings", [(), ("strategy=pool", "pool.p=32"), ("scale.urng.bits=14",)], ids=str)
def test_states_are_loaded_one_after_the_other(settings, play):
    spec = build(PezoSpec, settings)
    layout, dut, found = ZerothOrderLayout(LAYOUT.rows, spec, 3), StateLoader(spec), []
    positions = (5, 1234)

    async def body(ctx):
        rng = np.random.default_rng(1)
        for position in positions:
            ended = False
            beats = list(layout.state(position).image.reshape(-1, 16))
            while not ended:
                ctx.set(dut.beats.valid, bool(beats))
                ctx.set(dut.load.ready, rng.random() < 0.7)
                if beats:
                    ctx.set(dut.beats.payload, int.from_bytes(beats[0].tobytes(), "little"))
                    if ctx.get(dut.beats.ready):
                        beats.pop(0)
                if ctx.get(dut.load.valid) and ctx.get(dut.load.ready):
                    found.append((ctx.get(dut.load.payload.bit), ctx.get(dut.load.payload.last)))
                ended = bool(ctx.get(dut.done))
                await ctx.tick()
            ctx.set(dut.beats.valid, 0)

    play(dut, body)
    expected = [(int(bit), 0) for position in positions for bit in spec.serial(position)]
    assert [bit for bit, _ in found] == [bit for bit, _ in expected]
    assert [at for at, (_, last) in enumerate(found) if last] == [spec.state_bits - 1, 2 * spec.state_bits - 1]
