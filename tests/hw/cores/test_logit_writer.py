"""The logit writer: every sample on a beat of its own, in order, behind its own command."""

import numpy as np
import pytest

from fabtune.hw.cores.logit_writer import LogitWriter

from ..play import Memory


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("classes", [1, 3, 4, 10])
def test_logits_are_packed_by_sample(classes, stall, play):
    beats = -(-classes // 4)
    dut, store, rng = LogitWriter(beats), memory(stall), np.random.default_rng(classes)
    logits = rng.integers(-(1 << 23), 1 << 23, (2, 5, classes))

    async def body(ctx):
        for job, address in enumerate((0x100, 0x8000)):
            ctx.set(dut.address, address)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for sample in logits[job]:
                for at, logit in enumerate(sample):
                    while rng.random() < stall:
                        await ctx.tick()
                    ctx.set(dut.i.payload, {"logit": int(logit), "last": int(at == classes - 1)})
                    ctx.set(dut.i.valid, 1)
                    await ctx.tick().until(dut.i.ready)
                    ctx.set(dut.i.valid, 0)
            while not ctx.get(dut.empty):
                await ctx.tick()
            await ctx.tick()

    play(dut, body, store.writer(dut.write))
    assert store.writes == [(base + 16 * beats * at, beats) for base in (0x100, 0x8000) for at in range(5)]
    for job, base in enumerate((0x100, 0x8000)):
        padded = np.pad(logits[job], ((0, 0), (0, 4 * beats - classes))).astype("<i4")
        for at, beat in enumerate(padded.reshape(-1, 4)):
            assert store.beats[base + 16 * at] == int.from_bytes(beat.tobytes(), "little")


def test_a_sample_that_has_begun_is_not_empty(play):
    dut, store = LogitWriter(1), memory()

    async def body(ctx):
        assert ctx.get(dut.empty)
        ctx.set(dut.i.payload, {"logit": 5, "last": 0})
        ctx.set(dut.i.valid, 1)
        await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        for _ in range(5):
            await ctx.tick()
            assert not ctx.get(dut.empty)

    play(dut, body, store.writer(dut.write))
