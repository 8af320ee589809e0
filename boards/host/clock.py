"""Rate of a core's clock, from its cycle counter and the host's clock; the driver for PYNQ has this file beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

TOLERANCE = 0.02
"""Most difference of a measured rate from the expected one, in parts of it.

It is more than the error of the measurement, and less than half the step to the next rate of the processor from 60 MHz
on.
"""
WATCHED = 20_000_000
"""Nanoseconds for which commands are watched, all together."""
_HALF, _WORD = 1 << 31, 1 << 32


@dataclass
class ClockWatch:
    """Sum of what passes on the core's clock and on the host's, while commands run.

    Parameters
    ----------
    now : callable
        Nanoseconds of the host's clock, from any start on.

    Attributes
    ----------
    cycles, nanoseconds : int
        What has passed on both.
    """

    now: Callable[[], int] = time.perf_counter_ns
    cycles: int = 0
    nanoseconds: int = 0

    @property
    def hertz(self) -> int:
        """Rate of the core's clock; 0 where no command was long enough for three reads."""
        return round(self.cycles * 1e9 / self.nanoseconds) if self.nanoseconds else 0

    def watch(self, read: Callable[[], int], limit: int = WATCHED) -> None:
        """Watch the running command to its end.

        The counter is read again and again, between two looks at the host's clock; reads that took much longer than
        others are left out.

        Parameters
        ----------
        read : callable
            Reads the low word of the core's cycle counter.
        limit : int
            Nanoseconds after which it ends, also for a command that hangs.
        """
        first: tuple[int, int] | None = None
        running: tuple[int, int] | None = None
        pending: tuple[int, int] | None = None
        shortest = previous = -1
        begun = self.now()
        while True:
            before, cycles, after = self.now(), read(), self.now()
            # the counter rests: the command has ended, perhaps before the last read
            if cycles == previous:
                break
            running = pending or running
            took, stale = after - before, previous >= 0 and (cycles - previous) % _WORD >= _HALF
            # the counter had still the cycles of the command before, or all reads until now were interrupted
            if stale or shortest < 0 or 2 * took < shortest:
                shortest, first, running = took, None, None
            previous = cycles
            pending = (before + took // 2, cycles) if took <= 2 * shortest else None
            first = first or pending
            if after - begun >= limit:
                break
        if first and running:
            self.nanoseconds += running[0] - first[0]
            self.cycles += (running[1] - first[1]) % _WORD


def clock_differs(hertz: float, expected: float) -> bool:
    """Whether a rate is not the expected one, by more than `TOLERANCE`."""
    return abs(hertz - expected) > TOLERANCE * expected
