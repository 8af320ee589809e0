"""Phases of a core's bench: commands of the host driver as scripts, regions of memory as what is compared."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from ...boards.host.driver import Core
from ...golden.axi.regions import Bytes, JobMemory
from ...golden.cores.shell import CoreRegisters
from ..phase import HOST, Phase
from .recorded_host import RecordedHost


class RecordedJob:
    """Commands that are recorded one after the other, and made into phases.

    Parameters
    ----------
    core : CoreRegisters
        Registers of the core.
    patience : int
        Cycles that the bench waits for the end of a command.
    base : int
        Byte address of the first region.

    Attributes
    ----------
    memory : JobMemory
        Regions that are placed.
    host : RecordedHost
    core : Core
        Driver whose accesses are recorded.
    """

    def __init__(self, core: CoreRegisters, patience: int, base: int) -> None:
        self.memory = JobMemory(base)
        self.host = RecordedHost(core.map, patience)
        self.core = Core(core, self.host, None, self.host.interrupt)
        self._idle: dict[str, int | None] = dict.fromkeys(core.counter_names, 0)

    def run(self, command: IntEnum, counters: Mapping[str, int | None] | None = None, /, **settings: int) -> None:
        """Record a command, its counters, by default 0, and that it leaves neither an error nor an interrupt behind."""
        self.host.expect(error_address=0, error_address_high=0, **{**self._idle, **(counters or {})})
        self.core.run(command, **settings)
        for name in ("error_address", "error_address_high"):
            self.core.read(name)
        self.host.quiet()

    def phase(
        self,
        written: dict[str, Bytes],
        memory: dict[int, Bytes],
        reset: bool = False,
        midway: tuple[int, int, int] = (0, 7, 57),
    ) -> Phase:
        """Make a phase of what was recorded since the last one; `written` holds the regions that are compared."""
        script, answers = self.host.take()
        expected = {name: {"byte": image.reshape(-1, 1).astype(np.int64)} for name, image in written.items()}
        return Phase(
            expected={**expected, HOST: answers},
            reset=reset,
            memory={address: image.astype(np.int64) for address, image in memory.items()},
            kept={name: self.memory.addresses[name] for name in written},
            script=script,
            midway=midway,
        )
