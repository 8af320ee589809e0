"""Cache RAM: written beats are read back, a beat a cycle on both sides, with and without stalls."""

import pytest

from fabtune.hw.axi.cache_ram import CacheRam

from ..play import play_interface
from ..simulation import simulate

DEPTH, BEAT = 64, 16


def word(row, version=0):
    return (row + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128 ^ version


def commands(asked):
    return [{"address": row * BEAT, "beats": beats} for row, beats in asked]


def rows(asked):
    return [(row + at, int(at == beats - 1)) for row, beats in asked for at in range(beats)]


def read_back(writes, reads, version=0, stall=0.0):
    """Write, then read once all beats are stored."""
    beats = [word(row, version) for row, _ in rows(writes)]
    sources = {"write": commands(writes), "i": beats, "read": commands(reads)}
    return play_interface(
        CacheRam(DEPTH), sources, {"o": len(rows(reads))}, stall=stall, after={"read": ("i", len(beats))}
    )


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize(
    "reads", [[(0, DEPTH)], [(row, 1) for row in range(DEPTH)], [(10, 1), (63, 1), (40, 3), (5, 17), (5, 17)]]
)
def test_reads_give_what_was_written(reads, stall):
    seen = read_back([(0, 40), (40, 1), (41, 23)], reads, stall=stall)
    assert seen.words("o") == [{"data": word(row), "last": last} for row, last in rows(reads)]


def test_a_later_write_replaces_an_earlier_one():
    ram_writes = [(0, 8), (4, 2)]
    beats = [word(row) for row in range(8)] + [word(row, 1) for row in (4, 5)]
    sources = {"write": commands(ram_writes), "i": beats, "read": commands([(0, 8)])}
    seen = play_interface(CacheRam(DEPTH), sources, {"o": 8}, after={"read": ("i", 10)})
    assert [beat["data"] for _, beat in seen["o"]] == [word(row, int(row in (4, 5))) for row in range(8)]


def test_an_address_beyond_the_end_wraps_around():
    seen = read_back([(DEPTH + 3, 1)], [(3, 1)])
    assert seen["o"][0][1]["data"] == word(DEPTH + 3)


def test_reads_have_their_latency_and_run_at_a_beat_a_cycle():
    seen = read_back([(0, DEPTH)], [(0, DEPTH), (0, DEPTH)])
    times = seen.cycles("o")
    assert times[0] == seen["read"][0][0] + CacheRam.READ_LATENCY
    assert times[DEPTH - 1] - times[0] == DEPTH - 1
    assert times[-1] - times[0] == 2 * DEPTH, "a command takes a cycle beside its beats"


def test_idle_is_low_while_beats_are_missing():
    ram = CacheRam(DEPTH)

    async def bench(ctx):
        assert ctx.get(ram.idle)
        assert not ctx.get(ram.i.ready)
        ctx.set(ram.write.payload, commands([(0, 2)])[0])
        ctx.set(ram.write.valid, 1)
        await ctx.tick()
        ctx.set(ram.write.valid, 0)
        for _ in range(3):
            assert not ctx.get(ram.idle)
            assert not ctx.get(ram.write.ready)
            await ctx.tick()
        ctx.set(ram.i.valid, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(ram.idle)
        assert not ctx.get(ram.i.ready)

    simulate(ram, bench)
