"""Recordings of a host's commands on a core, and the first difference of two, such as golden's and the RTL's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...golden.axi.regions import Bytes
from .driver import Buffer, Core, CoreError, Finished

Setting = int | tuple[int, int]
"""Value of a setting; of an address, the number of the buffer and the byte in it."""


@dataclass(frozen=True, eq=False)
class CommandRecord:
    """A command, and what it left.

    Parameters
    ----------
    command : str
        Name, or the code of one that there is not.
    settings : dict of str to int or (int, int)
        Settings that were written for it.
    error : tuple of (str, int), optional
        Name of the error, and offending value or address; None where the command ended without an error.
    counters : dict of str to int
        Counters of a command without an error.
    memory : tuple of array of uint8
        Contents of all buffers behind it.
    """

    command: str
    settings: dict[str, Setting]
    error: tuple[str, Setting] | None
    counters: dict[str, int]
    memory: tuple[Bytes, ...]

    def region(self, number: int) -> str:
        """Name a buffer by the setting with its address, or by its number."""
        names = [name for name, value in self.settings.items() if isinstance(value, tuple) and value[0] == number]
        return names[0] if names else f"buffer {number}"


class RecordingCore(Core):
    """Driver that records all commands; in use a `Core`.

    Attributes
    ----------
    records : list of CommandRecord
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.records: list[CommandRecord] = []
        self._buffers: list[Buffer] = []

    def allocate(self, size: int, *name: str) -> Buffer:
        """Get a buffer of so many bytes, whose contents are recorded behind each command."""
        self._buffers.append(super().allocate(size, *name))
        return self._buffers[-1]

    def run(self, command: int, /, **options: Any) -> Finished:
        """Run a command as `Core.run` does, and record it."""
        settings = {name: value for name, value in options.items() if name not in ("polls", "seconds")}
        try:
            finished = super().run(command, **options)
        except CoreError as error:
            self._record(command, settings, (error.name, self._place(error.address)), {})
            raise
        self._record(command, settings, None, finished.counts)
        return finished

    def _record(
        self,
        command: int,
        settings: Mapping[str, int],
        error: tuple[str, Setting] | None,
        counters: dict[str, int],
    ) -> None:
        addresses = {address.name for address in self.core.addresses}
        placed = {name: self._place(value) if name in addresses else value for name, value in settings.items()}
        for buffer in self._buffers:
            buffer.invalidate()
        memory = tuple(buffer.array.copy() for buffer in self._buffers)
        name = self.core.commands(command).name if command in set(self.core.commands) else str(command)
        self.records.append(CommandRecord(name, placed, error, counters, memory))

    def _place(self, value: int) -> Setting:
        """Buffer and byte of an address; the value where it is in no buffer."""
        for number, buffer in enumerate(self._buffers):
            if 0 <= value - buffer.device_address < buffer.array.size:
                return number, value - buffer.device_address
        return value


def first_difference(golden: Sequence[CommandRecord], played: Sequence[CommandRecord]) -> str | None:
    """Name the first command, and setting, error, counter or byte of memory, in which a recording is not golden's.

    Parameters
    ----------
    golden, played : sequence of CommandRecord
        Recordings of one script.

    Returns
    -------
    str or None
        One line; None where the recordings are equal, cycles apart.
    """
    for number, (right, found) in enumerate(zip(golden, played, strict=False), 1):
        if difference := _difference(right, found):
            return f"command {number} of {len(golden)}, {right.command}: {difference}"
    if len(golden) != len(played):
        return f"{len(played)} commands, golden has {len(golden)}"
    return None


def _difference(golden: CommandRecord, played: CommandRecord) -> str | None:
    if golden.command != played.command:
        return f"{played.command} was run"
    for ours, theirs in (
        ({"error": golden.error}, {"error": played.error}),
        (golden.settings, played.settings),
        (golden.counters, played.counters),
    ):
        for name in {**ours, **theirs}:
            if ours.get(name) != theirs.get(name):
                return f"{name} is {_shown(theirs.get(name))}, golden says {_shown(ours.get(name))}"
    if len(golden.memory) != len(played.memory):
        return f"{len(played.memory)} buffers, golden has {len(golden.memory)}"
    for number, (right_bytes, found_bytes) in enumerate(zip(golden.memory, played.memory, strict=True)):
        if right_bytes.size != found_bytes.size:
            return f"{golden.region(number)} has {found_bytes.size} bytes, golden says {right_bytes.size}"
        if (different := np.flatnonzero(right_bytes != found_bytes)).size:
            place = int(different[0])
            values = f"{found_bytes[place]:#04x}, golden says {right_bytes[place]:#04x}"
            return f"byte {place} of {golden.region(number)} is {values} ({different.size} bytes differ)"
    return None


def _shown(value: Any) -> str:
    return "nothing" if value is None else " at ".join(map(str, value)) if isinstance(value, tuple) else str(value)
