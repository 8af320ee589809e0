"""Burst splitter: bursts cover their command, cross no page, have maximal length; drop discards."""

import numpy as np
import pytest

from fabtune.hw.axi.bursts import BurstSplitter

from ..play import play_interface
from ..simulation import simulate

PAGE, BEAT = 4096, 16


def expected(commands, longest, beat=BEAT):
    """Bursts of the commands, derived beat by beat."""
    bursts = []
    for address, beats in commands:
        first = True
        for at in range(address // beat, address // beat + beats):
            if first or at % longest == 0:
                bursts.append({"address": at * beat, "length": -1, "last": 0})
            bursts[-1]["length"] += 1
            first = False
        bursts[-1]["last"] = 1
    return bursts


def words(commands):
    return [{"address": address, "beats": beats} for address, beats in commands]


EDGES = [(0, 1), (0, 64), (0, 65), (BEAT * 63, 1), (BEAT * 63, 2), (BEAT * 63, 66), (PAGE - BEAT, 300), (BEAT, 63)]
RANDOM = [(int(row) * BEAT, int(beats)) for row, beats in np.random.default_rng(3).integers(1, (1 << 20, 400), (30, 2))]


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("longest", [2, 16, 64])
def test_bursts_cover_their_commands(longest, stall):
    commands = EDGES + RANDOM[:10]
    wanted = expected(commands, longest)
    seen = play_interface(BurstSplitter(burst=longest), {"command": words(commands)}, {"o": len(wanted)}, stall=stall)
    found = seen.words("o")
    assert found == wanted
    for burst in found:
        assert burst["address"] // PAGE == (burst["address"] + (burst["length"] + 1) * BEAT - 1) // PAGE


@pytest.mark.parametrize(("data", "address"), [(32, 16), (512, 40)])
def test_other_widths(data, address):
    beat = data // 8
    commands = [(row * beat, 70) for row in (0, 3, 63, 100)]
    wanted = expected(commands, 64, beat)
    seen = play_interface(BurstSplitter(address, data, 64), {"command": words(commands)}, {"o": len(wanted)})
    assert seen.words("o") == wanted


def test_the_longest_command():
    wanted = expected([(0x10, 65_535)], 64)
    assert [
        burst for _, burst in play_interface(BurstSplitter(), {"command": words([(0x10, 65_535)])}, {"o": 1024})["o"]
    ] == wanted


def test_a_command_takes_one_cycle_more_than_it_has_bursts():
    commands = [(0, 64 * 5), (0x200, 1), (0, 128)]
    seen = play_interface(BurstSplitter(), {"command": words(commands)}, {"o": 8})
    assert seen.cycles("command") == [0, 6, 8]
    assert seen["o"][0][0] == 2


def test_drop_discards_the_command_in_progress_and_those_that_follow():
    dut = BurstSplitter()

    async def bench(ctx):
        ctx.set(dut.command.payload, {"address": 0, "beats": 640})
        ctx.set(dut.command.valid, 1)
        await ctx.tick().repeat(4)
        assert ctx.get(dut.o.valid)
        assert not ctx.get(dut.idle)
        ctx.set(dut.drop, 1)
        await ctx.tick()
        for _ in range(5):
            assert ctx.get(dut.command.ready), "commands are accepted"
            assert not ctx.get(dut.o.valid)
            assert ctx.get(dut.idle)
            await ctx.tick()
        ctx.set(dut.drop, 0)
        ctx.set(dut.command.payload, {"address": 0x400, "beats": 1})
        await ctx.tick()
        ctx.set(dut.command.valid, 0)
        await ctx.tick()
        assert ctx.get(dut.o.valid)
        assert ctx.get(dut.o.payload.address) == 0x400

    simulate(dut, bench)
