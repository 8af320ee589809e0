"""Clock rate of a core, from its cycle counter and the host's clock. The PYNQ driver ships this file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

TOLERANCE = 0.02
"""Largest relative difference from the expected rate.

It exceeds the error of the measurement, and is below half the step to the processor's next rate from 60 MHz on.
"""
WATCHED = 20_000_000
"""Total nanoseconds of watched commands."""
_HALF, _WORD = 1 << 31, 1 << 32


@dataclass
class ClockWatch:
    """Core cycles and host nanoseconds summed over commands.

    Parameters
    ----------
    now : callable
        Nanoseconds of the host's clock, with any origin.
    cycles, nanoseconds : int
        Sums so far.
    """

    now: Callable[[], int] = time.perf_counter_ns
    cycles: int = 0
    nanoseconds: int = 0

    @property
    def hertz(self) -> int:
        """Rate of the core's clock; 0 if no command was long enough for three reads."""
        return round(self.cycles * 1e9 / self.nanoseconds) if self.nanoseconds else 0

    def watch(self, read: Callable[[], int], limit: int = WATCHED) -> None:
        """Watch the running command until it ends.

        The counter is read repeatedly, between two reads of the host's clock; slow reads are left out.

        Parameters
        ----------
        read : callable
            Reads the low word of the cycle counter.
        limit : int
            Limit in nanoseconds, for hanging commands.
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
    """Whether a rate differs from the expected rate by more than `TOLERANCE`."""
    return abs(hertz - expected) > TOLERANCE * expected
