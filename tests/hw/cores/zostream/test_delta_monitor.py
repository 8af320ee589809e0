"""Monitor of zostream's deltas: it shows the beats of the saved image."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.weights.word_offsets import OffsetCommand, WordOffsetsSpec
from fabtune.hw.cores.zostream.delta_monitor import DeltaMonitor
from fabtune.hw.stream.weights.word_offsets import WordOffsets


@pytest.mark.parametrize("n", [31, 15])
def test_beats_of_deltas_that_are_loaded(n):
    spec = WordOffsetsSpec(generator=build(PezoSpec, [f"scale.urng.n={n}"], None))
    rng, rows = np.random.default_rng(0), 5
    image = rng.integers(-(1 << 31), 1 << 31, (rows, spec.row_words))
    image[:, spec.n :] = 0
    deltas, monitor, top = WordOffsets(spec), DeltaMonitor(spec), Module()
    top.submodules += [deltas, monitor]
    top.d.comb += [
        monitor.valid.eq(deltas.stored),
        *(getattr(monitor, name).eq(getattr(deltas, name)) for name in ("row", "column", "delta")),
    ]
    shown = {}

    async def load(ctx):
        ctx.set(deltas.command.payload, {"kind": OffsetCommand.LOAD, "count": rows})
        ctx.set(deltas.command.valid, 1)
        while not (await ctx.tick().sample(deltas.command.ready))[2]:
            pass
        ctx.set(deltas.command.valid, 0)
        ctx.set(deltas.load.valid, 1)
        for beat in image.reshape(-1, 4).tolist():
            ctx.set(deltas.load.payload, {"delta": beat})
            while not (await ctx.tick().sample(deltas.load.ready))[2]:
                pass
        ctx.set(deltas.load.valid, 0)
        ctx.set(deltas.done.ready, 1)
        while not (await ctx.tick().sample(deltas.done.valid))[2]:
            pass

    async def look(ctx):
        async for *_, valid, beat, data in ctx.tick().sample(monitor.beat_valid, monitor.beat, monitor.data):
            if valid:
                shown[beat] = data

    simulator = Simulator(top)
    simulator.add_clock(1e-9)
    simulator.add_testbench(load)
    simulator.add_testbench(look, background=True)
    simulator.run()
    expected = [int.from_bytes(beat.astype("<i4").tobytes(), "little") for beat in image.reshape(-1, 4)]
    assert shown == dict(enumerate(expected))
