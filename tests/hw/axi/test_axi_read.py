# amaranth: UnusedElaboratable=no
"""AXI read manager: beats, order, latency, throughput, bad responses and stop, against a memory."""

import numpy as np
import pytest

from fabtune.golden.axi.axi_read import AxiReadSpec
from fabtune.hw.axi.axi_read import AxiRead

from .managers import read

BEAT, PAGE = 16, 4096


def commands(seed, count, longest):
    """Random commands, some starting just below 4 KiB."""
    rng = np.random.default_rng(seed)
    beats = rng.integers(1, longest + 1, count)
    places = rng.integers(0, 2**24, count)
    near = rng.random(count) < 0.3
    places = np.where(near, places // 256 * 256 + 256 - rng.integers(1, 20, count), places)
    return [(int(place) * BEAT, int(beat)) for place, beat in zip(places, beats, strict=True)]


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize(("burst", "depth"), [pytest.param(64, 512, marks=pytest.mark.slow), (16, 32)])
def test_read_gives_what_the_memory_holds(stall, burst, depth):
    run = read(AxiRead(AxiReadSpec(burst=burst, depth=depth)), commands(1, 40, 80), stall, latency=17)
    assert run.beats == run.wanted()
    assert run.addresses() == [address for address, _ in run.expected()]
    assert max(beats for _, beats in run.bursts) <= burst
    assert run.error == 0


def test_read_of_many_beats():
    run = read(AxiRead(AxiReadSpec()), [(PAGE * 5 + 0x7F0, 1500)], latency=40)
    assert run.beats == run.wanted()
    assert max(beats for _, beats in run.bursts) == 64


def test_read_hides_a_latency_of_200_cycles():
    run = read(
        AxiRead(AxiReadSpec()), [(place, 5 + beats % 61) for place, beats in commands(2, 60, 10_000)], latency=200
    )
    assert run.times[-1] - run.times[0] + 1 == run.total


def test_read_of_five_beats_each_hides_a_latency_of_200_cycles():
    run = read(AxiRead(AxiReadSpec()), [(place, 5) for place, _ in commands(3, 200, 5)], latency=200)
    assert run.times[-1] - run.times[0] + 1 == run.total == 1000


def test_read_latency_is_what_the_class_says():
    run = read(AxiRead(AxiReadSpec()), [(0, 1)], latency=10)
    assert run.issued == [3]
    assert run.times == [3 + 10 + 3]


def test_read_reserves_room_before_it_asks():
    """Without a receiver, requests never exceed the FIFO."""
    run = read(AxiRead(AxiReadSpec(burst=16, depth=64)), [(0, 1000)], cycles=300, blocked=True)
    assert run.bursts == [(0, 16), (256, 16), (512, 16), (768, 16)]
    assert run.answered == 4


@pytest.mark.parametrize(("response", "burst"), [(2, 0), (3, 4)])
def test_read_stops_at_a_bad_response(response, burst):
    asked = [(PAGE * j + 0x400, 40) for j in range(20)]
    bad = {asked[burst][0]: response, asked[burst + 2][0]: 5 - response}
    run = read(AxiRead(AxiReadSpec()), asked, latency=20, bad=bad, cycles=900)
    assert (run.error, run.error_address) == (response, asked[burst][0])
    assert run.idle[-1]
    assert run.answered == len(run.bursts) < len(asked)
    assert run.beats == run.wanted()[: 40 * burst][: len(run.beats)]


def test_read_takes_exokay_for_good():
    run = read(AxiRead(AxiReadSpec()), [(0x100, 8)], bad={0x100: 1})
    assert run.error == 0


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("abort_at", [7, 61, *(pytest.param(one, marks=pytest.mark.slow) for one in (0, 60, 62, 63))])
def test_read_ends_idle_after_abort(stall, abort_at):
    run = read(AxiRead(AxiReadSpec()), commands(4, 30, 80), stall, latency=30, abort_at=abort_at, cycles=1500)
    assert run.idle[-1]
    assert run.answered == len(run.bursts)
    if not stall:
        assert all(cycle <= abort_at for cycle in run.issued)
    assert run.error == 0


def test_read_of_single_beats_and_of_beats_at_the_end_of_a_page():
    commands = [
        (PAGE - BEAT, 1),
        (PAGE - BEAT, 2),
        (PAGE, 1),
        (PAGE * 2 - 2 * BEAT, 3),
        *[(BEAT * at, 1) for at in range(9)],
    ]
    run = read(AxiRead(AxiReadSpec()), commands, 0.3)
    assert run.beats == run.wanted()


def test_read_fills_its_fifo_to_the_last_beat():
    """Without a receiver the FIFO fills completely; then all beats are delivered."""
    run = read(AxiRead(AxiReadSpec(burst=16, depth=32)), [(0, 200)], latency=2, blocked_until=150)
    assert run.beats == run.wanted()
    assert [beats for _, beats in run.bursts] == [16] * 12 + [8]
    assert run.issued[1] < 150 < run.issued[2]


def test_read_has_as_many_bursts_outstanding_as_the_spec_says():
    """Single-beat bursts without answers."""
    spec = AxiReadSpec(burst=4, depth=16)
    run = read(AxiRead(spec), [(BEAT * at, 1) for at in range(30)], latency=200)
    assert run.beats == run.wanted()
    assert sum(cycle < 200 for cycle in run.issued) == spec.most_outstanding == 13


def test_read_issues_nothing_in_the_cycle_of_abort():
    asked = commands(7, 10, 60)
    fourth = read(AxiRead(AxiReadSpec()), asked).issued[3]
    assert len(read(AxiRead(AxiReadSpec()), asked, abort_at=fourth, cycles=300).bursts) == 4
    assert len(read(AxiRead(AxiReadSpec()), asked, abort_at=fourth - 1, cycles=300).bursts) == 3
