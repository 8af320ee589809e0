"""Measurement of a clock rate from a cycle counter, with slow and interrupted reads."""

import random

import pytest

from fabtune.boards.host.clock import ClockWatch, clock_differs

READ = 300
"""Nanoseconds per read of the counter."""


class Command:
    """A command of some cycles at a clock rate, with the host's clock; some reads are interrupted."""

    def __init__(self, cycles, mhz, interrupted=(), stale=0):
        self.cycles, self.mhz, self.interrupted, self.stale = cycles, mhz, interrupted, stale
        self.time = self.reads = 0
        self.random = random.Random(1)

    def now(self):
        return self.time

    def read(self):
        self.reads += 1
        # the counter is sampled somewhere within the read
        early = self.random.randrange(READ // 3, READ // 2)
        late = READ - early
        if self.reads in self.interrupted:
            early, late = self.random.choice([(1_000_000, late), (early, 1_000_000)])
        self.time += early
        counted = min(int(self.time * self.mhz / 1000), self.cycles)
        self.time += late
        return 123_456 if self.reads <= self.stale else counted % (1 << 32)


@pytest.mark.parametrize("mhz", [10, 187.5, 1500 / 7, 300])
def test_long_commands_give_the_rate(mhz):
    command = Command(100_000, mhz)
    watch = ClockWatch(command.now)
    watch.watch(command.read)
    assert watch.hertz == pytest.approx(1e6 * mhz, rel=1e-3)
    assert not clock_differs(watch.hertz, 1e6 * mhz)


@pytest.mark.parametrize("interrupted", [(1,), (2,), (1, 2, 3), (5, 9), (3, 30)])
def test_interrupted_reads_do_not_count(interrupted):
    command = Command(2_000_000, 187.5, interrupted)
    watch = ClockWatch(command.now)
    watch.watch(command.read)
    assert watch.hertz == pytest.approx(187.5e6, rel=1e-3)


def test_an_interrupted_read_is_not_the_last_one():
    command = Command(2_000_000, 187.5, (30,))
    watch = ClockWatch(command.now)
    watch.watch(command.read, limit=29 * READ + 1_000_000 + READ)
    assert command.reads == 31
    assert watch.hertz == pytest.approx(187.5e6, rel=5e-2)


def test_short_commands_add_up():
    watch = ClockWatch()
    for _ in range(200):
        command = Command(300, 187.5)  # five reads
        watch.now = command.now
        watch.watch(command.read)
    assert watch.hertz == pytest.approx(187.5e6, rel=1e-2)


def test_the_counter_of_the_command_before_does_not_count():
    command = Command(20_000, 187.5, stale=1)
    watch = ClockWatch(command.now)
    watch.watch(command.read)
    assert watch.hertz == pytest.approx(187.5e6, rel=5e-3)


def test_too_short_a_command_gives_no_rate():
    command = Command(60, 187.5)
    watch = ClockWatch(command.now)
    watch.watch(command.read)
    assert watch.hertz == 0


def test_a_command_that_hangs_is_watched_for_a_while():
    command = Command(1 << 60, 187.5)
    watch = ClockWatch(command.now)
    watch.watch(command.read, limit=100_000)
    assert 90_000 < watch.nanoseconds <= 100_000
    assert watch.hertz == pytest.approx(187.5e6, rel=5e-3)


def test_the_neighbours_of_a_rate_differ():
    assert clock_differs(1500 / 7, 187.5)
    assert clock_differs(1500 / 9, 187.5)
    assert not clock_differs(187.498123, 187.5)
    assert all(clock_differs(1500 / (k + 1), 1500 / k) for k in range(5, 25))
