# amaranth: UnusedElaboratable=no
"""AXI write manager: beats, order, latency, throughput, bad responses and stop, against a memory."""

import numpy as np
import pytest

from fabtune.golden.axi.axi_write import AxiWriteSpec
from fabtune.hw.axi.axi_write import AxiWrite

from .managers import write

BEAT, PAGE = 16, 4096


def apart(seed, count, longest):
    """Commands without overlap."""
    rng = np.random.default_rng(seed)
    starts = rng.permutation(count) * (longest + 40) + rng.integers(0, 40, count)
    return [
        (int(start) * BEAT, int(beats))
        for start, beats in zip(starts, rng.integers(1, longest + 1, count), strict=True)
    ]


@pytest.mark.parametrize(
    ("shape", "stall", "starve"),
    [
        ({}, 0.0, 0.0),
        ({}, 0.5, 0.0),
        pytest.param({}, 0.1, 0.8, marks=pytest.mark.slow),
        ({"burst": 64}, 0.0, 0.0),
        ({"burst": 4, "depth": 8, "outstanding": 2}, 0.5, 0.0),
        *(
            pytest.param({"burst": burst} | more, 0.1, 0.8, marks=pytest.mark.slow)
            for burst, more in ((64, {}), (4, {"depth": 8, "outstanding": 2}))
        ),
    ],
)
def test_write_gives_the_memory_what_it_was_given(shape, stall, starve):
    run = write(AxiWrite(AxiWriteSpec(**shape)), apart(5, 30, 90), stall, latency=9, starve=starve)
    assert run.written == run.image()
    assert run.addresses() == [address for address, _ in run.expected()]
    assert max(beats for _, beats in run.bursts) <= shape.get("burst", 16)
    assert run.error == 0


@pytest.mark.parametrize(("offset", "wait"), [(0, 0), (8, 16)])
def test_write_runs_at_a_beat_a_cycle(offset, wait):
    """Short bursts before long ones: the address sent early waits for data once, not repeatedly."""
    run = write(AxiWrite(AxiWriteSpec()), [(PAGE * j + offset * BEAT, 64) for j in range(20)], latency=100)
    assert run.total <= run.times[-1] - run.times[0] + 1 <= run.total + wait


def test_write_latency_is_what_the_class_says():
    run = write(AxiWrite(AxiWriteSpec()), [(0, 8)], latency=10)
    last_entered = 7
    assert run.issued == [last_entered + 2]
    assert run.times[0] == last_entered + 3


@pytest.mark.parametrize(("response", "burst"), [(2, 0), (3, 4)])
def test_write_stops_at_a_bad_response(response, burst):
    asked = [(PAGE * j + 0x100, 16) for j in range(20)]
    bad = {asked[burst][0]: response, asked[burst + 2][0]: 5 - response}
    run = write(AxiWrite(AxiWriteSpec()), asked, latency=20, bad=bad, cycles=900)
    assert (run.error, run.error_address) == (response, asked[burst][0])
    assert run.idle[-1]
    assert run.answered == len(run.bursts) == sum(last for _, last in run.beats) < len(asked)


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize(
    "abort_at", [0, 61, *(pytest.param(one, marks=pytest.mark.slow) for one in (9, 20, 60, 62, 63, 64))]
)
def test_write_ends_idle_after_abort(stall, abort_at):
    run = write(AxiWrite(AxiWriteSpec()), apart(6, 30, 80), stall, latency=30, abort_at=abort_at, cycles=1500)
    assert run.idle[-1]
    assert run.answered == len(run.bursts) == sum(last for _, last in run.beats)
    assert run.addresses() == [address for address, _ in run.expected()][: len(run.beats)]
    if not stall:
        assert all(cycle <= abort_at for cycle in run.issued)


def test_write_of_single_beats_and_of_beats_at_the_end_of_a_page():
    commands = [(PAGE - BEAT, 1), (PAGE, 2), (PAGE * 3 - 2 * BEAT, 3), *[(PAGE * 8 + BEAT * at, 1) for at in range(9)]]
    run = write(AxiWrite(AxiWriteSpec()), commands, 0.3)
    assert run.written == run.image()


def test_write_takes_beats_before_their_command():
    run = write(AxiWrite(AxiWriteSpec()), [(0, 16), (PAGE, 5)], commands_from=60)
    assert run.written == run.image()
    assert run.issued[0] == 60 + 3


def test_write_has_no_more_bursts_outstanding_than_it_may():
    """Two addresses in the FIFO memory and one in its output register: the fourth burst waits for a response."""
    spec = AxiWriteSpec(burst=4, depth=16, outstanding=2)
    run = write(AxiWrite(spec), [(PAGE * at, 4) for at in range(5)], latency=100)
    assert run.written == run.image()
    assert run.issued[2] < 100 < run.issued[3]
    assert spec.most_outstanding == 3


def test_write_issues_nothing_in_the_cycle_of_abort():
    asked = apart(7, 10, 60)
    fourth = write(AxiWrite(AxiWriteSpec()), asked).issued[3]
    assert len(write(AxiWrite(AxiWriteSpec()), asked, abort_at=fourth, cycles=300).bursts) == 4
    assert len(write(AxiWrite(AxiWriteSpec()), asked, abort_at=fourth - 1, cycles=300).bursts) == 3


def test_write_takes_and_drops_once_stopped():
    """Also with a full FIFO whose data nobody takes."""
    asked = [(PAGE * j, 64) for j in range(10)]
    assert write(AxiWrite(AxiWriteSpec()), asked, blocked=True, cycles=800).left == (9, 640 - 128 - 1)
    assert write(AxiWrite(AxiWriteSpec()), asked, blocked=True, abort_at=150, cycles=800).left == (0, 0)
