"""Sample buffers: samples start in order of arrival, and never exceed the free buffers."""

import numpy as np
import pytest

from fabtune.golden.models.layers import Convolution, Linear
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.sample_buffers import OverlappingBuffers, RestoringBuffers, SampleBuffers

from ..simulation import simulate

SMALL = Mapping("small", stages_of("small", (12,), (Linear(4),)))
LARGE = Mapping("large", stages_of("large", (1, 100, 100), (Convolution(4, 3),)))


def test_mappings_have_two_buffers_and_one():
    assert (SMALL.sample_buffers, LARGE.sample_buffers) == (2, 1)


@pytest.mark.parametrize("mapping", [SMALL, LARGE], ids=["two buffers", "one buffer"])
@pytest.mark.parametrize("seed", range(4))
def test_random_arrivals_and_ends(mapping, seed):
    """Compared with lists of filling, waiting and computed buffers."""
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

    simulate(dut, bench)
    assert len(started) > 50
    assert started == [at % mapping.sample_buffers for at in range(len(started))]


@pytest.mark.parametrize("seed", range(2))
def test_samples_start_as_soon_as_the_words_before_are_issued(seed):
    """Issued and computed samples, compared with lists."""
    dut, rng, started = OverlappingBuffers(SMALL), np.random.default_rng(seed), []

    async def bench(ctx):
        filling = waiting = issuing = read = draining = 0
        for _ in range(800):
            held, hold = filling + waiting + issuing - read, bool(rng.random() < 0.3)
            begins = bool(waiting and not issuing and not hold)
            enter, arrived = held < 2 and not filling and rng.random() < 0.7, filling and rng.random() < 0.5
            consumed = issuing and not read and rng.random() < 0.3
            done = draining and rng.random() < 0.3
            # the last stage waits until the outputs of the previous sample are written
            issued = (read or consumed) and draining <= bool(done) and rng.random() < 0.3
            inputs = {"hold": hold, "enter": enter, "arrived": arrived, "issued": issued, "done": done}
            inputs["consumed"] = consumed
            for name, value in inputs.items():
                ctx.set(getattr(dut, name), int(bool(value)))
            expected = {"room": held < 2, "begin": begins, "running": issuing + draining > 0}
            assert {name: bool(ctx.get(getattr(dut, name))) for name in expected} == expected
            if begins:
                started.append(ctx.get(dut.current))
            filling, waiting = filling + bool(enter) - bool(arrived), waiting + bool(arrived) - begins
            read = int(bool((read or consumed) and not issued))
            issuing, draining = issuing + begins - bool(issued), draining + bool(issued) - bool(done)
            await ctx.tick()

    simulate(dut, bench)
    assert len(started) > 50
    assert started == [at % 2 for at in range(len(started))]


def test_restored_passes_take_no_samples():
    """A restored pass starts at once, and leaves samples and buffers unchanged."""
    dut, rng = RestoringBuffers(SMALL), np.random.default_rng(5)
    begun = {"samples": [], "restored": 0}

    async def bench(ctx):
        filling = waiting = computed = 0
        running, restored, restore = False, False, False
        for _ in range(800):
            if not running and not restored:
                restore = bool(rng.random() < 0.5)
            hold = bool(rng.random() < 0.3)
            held = filling + waiting + computed
            begins = not running and not hold and (restored if restore else waiting > 0)
            enter, arrived = held < 2 and not filling and rng.random() < 0.5, filling and rng.random() < 0.3
            done = running and rng.random() < 0.3
            inputs = {"hold": hold, "enter": enter, "arrived": arrived, "done": done}
            for name, value in {**inputs, "restore": restore, "restored": restored}.items():
                ctx.set(getattr(dut, name), int(bool(value)))
            assert ctx.get(dut.room) == (held < 2)
            assert ctx.get(dut.begin) == begins
            assert ctx.get(dut.running) == running
            if begins and restore:
                begun["restored"] += 1
            elif begins:
                begun["samples"].append(ctx.get(dut.current))
                waiting, computed = waiting - 1, 1
            restored = restore and not begins and (restored or rng.random() < 0.3)
            if done and not restore:
                computed = 0
            running = begins or (running and not done)
            filling, waiting = filling + bool(enter) - bool(arrived), waiting + bool(arrived)
            await ctx.tick()

    simulate(dut, bench)
    assert begun["restored"] > 30
    assert len(begun["samples"]) > 30
    assert begun["samples"] == [at % 2 for at in range(len(begun["samples"]))]
