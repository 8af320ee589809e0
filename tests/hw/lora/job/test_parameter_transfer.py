"""The parameter transfer: each beat of an image to its memory, and the adapters' image back."""

import numpy as np
import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.hw.lora.job.parameter_transfer import ParameterTransfer
from fabtune.hw.lora.job_interfaces import AdapterRead, ParameterKind

from ...play import Memory

MAPPING = InstantftSpec(network="1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3").mapping
FORWARD = MAPPING.forward
IMAGES = {
    "load_frozen": (FORWARD.weight_words * FORWARD.word_beats, FORWARD.frozen_beats, ("WEIGHT", "BIAS")),
    "load_adapters": (MAPPING.adapter_rows * FORWARD.word_beats, MAPPING.adapter_beats, ("A", "B")),
}


async def pulse(ctx, port):
    """Raise a port for a cycle."""
    ctx.set(port, 1)
    await ctx.tick()
    ctx.set(port, 0)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_beats_go_to_their_memories(stall, play):
    dut, store = ParameterTransfer(MAPPING), memory(stall)
    rng, seen = np.random.default_rng(3), []

    async def watch(ctx):
        port = dut.parameters
        while True:
            *_, kind, address, beat = await ctx.tick().sample(port.kind, port.address, port.beat)
            if kind:
                seen.append((kind, address, beat))

    async def body(ctx):
        for name, (border, beats, kinds) in [*IMAGES.items(), *reversed(IMAGES.items())]:
            image = rng.integers(0, 256, 16 * beats)
            store.load(0x4000, image)
            seen.clear()
            ctx.set(dut.address, 0x4000)
            await pulse(ctx, getattr(dut, name))
            await ctx.tick().until(dut.done)
            await ctx.tick()
            assert store.reads[-1] == (0x4000, beats)
            assert seen == [
                (
                    ParameterKind[kinds[at >= border]],
                    at - border * (at >= border),
                    store.beats[0x4000 + 16 * at],
                )
                for at in range(beats)
            ]

    play(dut, body, watch, store.reader(dut.read.command, dut.read.beats))


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_adapters_are_saved(stall, play):
    dut, store = ParameterTransfer(MAPPING), memory(stall)
    beats = [int(beat) * 0x10001 + 7 for beat in range(MAPPING.adapter_beats)]
    cycles = 0

    async def engine(ctx):
        """Show a beat as many cycles after its address as the engine's memory."""
        pipeline = [0] * AdapterRead.LATENCY
        while True:
            *_, address = await ctx.tick().sample(dut.adapters.address)
            pipeline = [address, *pipeline[:-1]]
            ctx.set(dut.adapters.beat, beats[min(pipeline[-1], len(beats) - 1)])

    async def body(ctx):
        nonlocal cycles
        for _ in range(2):
            ctx.set(dut.address, 0x6000)
            await pulse(ctx, dut.save_adapters)
            cycles, done = 0, False
            while not done:
                *_, done = await ctx.tick().sample(dut.done)
                cycles += 1
            assert store.writes[-1] == (0x6000, len(beats))
            assert [store.beats[0x6000 + 16 * at] for at in range(len(beats))] == beats
            store.beats.clear()

    play(dut, body, engine, store.writer(dut.write))
    if not stall:
        assert cycles == (AdapterRead.LATENCY + 1) * len(beats) + 2
