"""A self-test in the making: its commands are played on the golden core, which gives what is right after each."""

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
    """Script of a self-test, whose stages are played as they are added.

    Parameters
    ----------
    spec : CoreSpec
        The core.
    core : GoldenCore, optional
        Its model, where it needs more than the parameters.
    traces : bool
        Stages that train have the images of what is updated.

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
        """Give a region a place; return its offset."""
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
        """Play a command and append it as a stage.

        Parameters
        ----------
        name, command, settings
            See `SelfTestStage`.
        shows : mapping of str to str
            Settings with addresses of regions that are compared after the command, up to the last byte written so far;
            and what they have, for messages.
        trains : bool
            Counters are compared, too.
        counters : sequence of str
            Those; by default all that the core declares.

        Returns
        -------
        list of array of uint8
            The contents of these regions.

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
