"""Builder of self-tests: each command runs on the golden core, whose results become the expected results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from ...golden.axi.regions import Bytes, Region
from ...golden.cores.core import CoreSpec
from ...golden.cores.golden_core import CoreMemory, GoldenCore, golden_core
from ...golden.errors import UserError
from .job import SelfTest


class PlayedSelfTest:
    """A self-test under construction; each added command runs at once on the golden core.

    Parameters
    ----------
    spec : CoreSpec
    core : GoldenCore, optional
        By default the spec's golden core.
    traces : bool
        Training stages record the images of the parameters.

    Attributes
    ----------
    test : SelfTest
        Stages so far.
    """

    def __init__(self, spec: CoreSpec, core: GoldenCore[Any] | None = None, traces: bool = True) -> None:
        self.test, self._traces = SelfTest(spec), traces
        self._core, self._memory = core or golden_core(spec), CoreMemory(spec)
        self._settings = {setting.name: setting.reset for setting in spec.registers.settings}

    def place(self, region: Region, name: str = "") -> int:
        """Place a region in the job's memory; return the region's offset."""
        offset, contents = self.test.place(region, name), np.zeros(region.size, np.uint8)
        contents[: region.image.size] = region.image
        self._memory.add(offset, contents)
        return offset

    def play(
        self,
        name: str,
        command: IntEnum,
        settings: Mapping[str, int],
        shows: Mapping[str, str] | None = None,
        trains: bool = False,
        counters: Sequence[str] = (),
    ) -> list[Bytes]:
        """Run a command, append a stage with it, and return the compared regions.

        Parameters
        ----------
        name, command, settings
            See `SelfTestStage`.
        shows : mapping of str to str
            Regions to compare, each up to the last byte written so far: description by address setting.
        trains : bool
            Compare counters, too.
        counters : sequence of str
            Compared counters; by default all.

        Raises
        ------
        UserError
            If the command ends in an error.
        """
        self._settings |= settings
        self._core.updates = [] if trains and self._traces else None
        result = self._core.run(command, self._settings, self._memory)
        if result.error:
            raise UserError(f"stage {name!r} ends with {result.error.error.name} at {result.error.value:#x}")
        names = counters or self.test.spec.registers.counter_names
        counts = {counter: result.counters[counter] for counter in names if counter in result.counters}
        places = {what: self._settings[address] for address, what in (shows or {}).items()}
        memory = {what: (place, self._memory.written(place)) for what, place in places.items()}
        images = self._core.updates or []
        self.test.stage(name, command, settings, counts if trains else None, memory, images)
        return [image for _, image in memory.values()]
