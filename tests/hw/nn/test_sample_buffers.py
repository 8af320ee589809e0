"""Sample buffers: samples start in order of arrival, and never more come in than there is room for."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from fabtune.golden.models.network import Convolution, Linear, stages_of
from fabtune.golden.nn.mapping import Mapping
from fabtune.hw.nn.sample_buffers import SampleBuffers

SMALL = Mapping("small", stages_of("small", (12,), (Linear(4),)))
LARGE = Mapping("large", stages_of("large", (1, 100, 100), (Convolution(4, 3),)))


def test_mappings_have_two_buffers_and_one():
    assert (SMALL.sample_buffers, LARGE.sample_buffers) == (2, 1)


@pytest.mark.parametrize("mapping", [SMALL, LARGE], ids=["two buffers", "one buffer"])
@pytest.mark.parametrize("seed", range(4))
def test_random_arrivals_and_ends(mapping, seed):
    """Against a list of buffers: those that fill, wait and are computed."""
    dut, rng = SampleBuffers(mapping), np.random.default_rng(seed)
    started = []

    async def bench(ctx):
        filling, waiting, running = [], [], []
        following, mismatches = 0, []
        for _ in range(800):
            hold = rng.random() < 0.3
            room = len(filling) + len(waiting) + len(running) < mapping.sample_buffers
            expected = {"room": room, "begin": bool(waiting and not running and not hold), "running": bool(running)}
            enter = room and not filling and rng.random() < 0.5
            arrived, done = bool(filling) and rng.random() < 0.3, bool(running) and rng.random() < 0.3
            for name, value in {"hold": hold, "enter": enter, "arrived": arrived, "done": done}.items():
                ctx.set(getattr(dut, name), value)
            mismatches += [name for name, value in expected.items() if bool(ctx.get(getattr(dut, name))) != value]
            if filling:
                assert ctx.get(dut.into) == filling[0]
            if running or expected["begin"]:
                assert ctx.get(dut.current) == (running or waiting)[0]
            if expected["begin"]:
                started.append(waiting[0])
                running.append(waiting.pop(0))
            if arrived:
                waiting.append(filling.pop())
            if done:
                running.pop()
            if enter:
                filling.append(following)
                following = (following + 1) % mapping.sample_buffers
            await ctx.tick()
        assert not mismatches

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(started) > 50
    assert started == [at % mapping.sample_buffers for at in range(len(started))]


@pytest.mark.parametrize("twice", [0, 1])
def test_a_sample_is_computed_once_or_twice(twice):
    """The second pass follows the first whether it is held or not, and only then the buffer is free."""
    dut, rng = SampleBuffers(SMALL, passes=2), np.random.default_rng(5)
    passes = []

    async def bench(ctx):
        ctx.set(dut.twice, twice)
        filling = waiting = left = entered = 0
        running = False
        for _ in range(800):
            hold = int(rng.random() < 0.3)
            held = filling + waiting + (left > 0)
            begins = not running and ((0 < left < 1 + twice) or (waiting > 0 and not hold and not left))
            enter, arrived = held < 2 and not filling and rng.random() < 0.5, filling and rng.random() < 0.3
            done = running and rng.random() < 0.3
            for name, value in {"hold": hold, "enter": enter, "arrived": arrived, "done": done}.items():
                ctx.set(getattr(dut, name), int(bool(value)))
            assert ctx.get(dut.room) == (held < 2)
            assert ctx.get(dut.begin) == begins
            assert ctx.get(dut.running) == running
            if begins or running:
                assert ctx.get(dut.again) == (left == 1 and twice)
            if begins:
                if not left:
                    waiting, left = waiting - 1, 1 + twice
                passes.append(ctx.get(dut.current))
                running = True
            if done:
                left, running = left - 1, False
            filling, waiting = filling + bool(enter) - bool(arrived), waiting + bool(arrived)
            entered += bool(enter)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(passes) > 50
    assert passes == [at // (1 + twice) % 2 for at in range(len(passes))]
