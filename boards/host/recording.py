"""Recordings of a host's commands on a core, and the first difference of two, such as golden's and the RTL's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...golden.axi.regions import Bytes
from .driver import Buffer, Core, CoreError, Finished

Setting = int | tuple[str, int]
"""Value of a setting; of an address, the region and the byte in it."""


@dataclass(frozen=True, eq=False)
class CommandRecord:
    """A command, and what it left.

    Parameters
    ----------
    command : str
        Name, or the code of one that there is not.
    settings : dict of str to int or (str, int)
        Settings that were written for it.
    error : tuple of (str, int), optional
        Name of the error, and offending value or address; None where the command ended without an error.
    counters : dict of str to int
        Counters of a command without an error.
    memory : dict of str to array of uint8
        Contents of all regions behind it.
    cycles : int
        Clock cycles; 0 where it ended in an error. They are not compared.
    """

    command: str
    settings: dict[str, Setting]
    error: tuple[str, Setting] | None
    counters: dict[str, int]
    memory: dict[str, Bytes]
    cycles: int = 0

    @property
    def described(self) -> str:
        """The command with its settings, but for the addresses."""
        numbers = [f"{name}={value}" for name, value in self.settings.items() if isinstance(value, int)]
        return f"{self.command}({', '.join(numbers)})" if numbers else self.command


class RecordingCore(Core):
    """Driver that records all commands; in use a `Core`.

    Regions are called as the buffers were when they were allocated, those from before a recording as the setting that
    first has their address in it; another one of the same name has a number.

    Attributes
    ----------
    records : list of CommandRecord
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._buffers: list[Buffer] = []
        self.begin()
        super().__init__(*arguments, **options)

    def begin(self) -> None:
        """Begin another recording."""
        self.records: list[CommandRecord] = []
        self._regions: dict[str, Buffer] = {}

    def allocate(self, size: int, name: str = "a buffer") -> Buffer:
        """Get a buffer of so many bytes, whose contents are recorded behind each command."""
        self._buffers.append(super().allocate(size, name))
        self._name(self._buffers[-1], name)
        return self._buffers[-1]

    def run(self, command: int, /, **options: Any) -> Finished:
        """Run a command as `Core.run` does, and record it."""
        settings = {name: value for name, value in options.items() if name not in ("polls", "seconds")}
        try:
            finished = super().run(command, **options)
        except CoreError as error:
            self._record(command, settings, (error.name, error.address), Finished(0, {}))
            raise
        self._record(command, settings, None, finished)
        return finished

    def _record(
        self, command: int, settings: Mapping[str, int], error: tuple[str, int] | None, finished: Finished
    ) -> None:
        addresses = {address.name for address in self.core.addresses}
        placed = {name: self._place(value, name) if name in addresses else value for name, value in settings.items()}
        memory, before = {}, self.records[-1].memory if self.records else {}
        for region, buffer in self._regions.items():
            buffer.invalidate()
            same = region in before and np.array_equal(before[region], buffer.array)
            memory[region] = before[region] if same else buffer.array.copy()
        name = self.core.commands(command).name if command in set(self.core.commands) else str(command)
        ended = (error[0], self._place(error[1])) if error else None
        self.records.append(CommandRecord(name, placed, ended, finished.counts, memory, finished.cycles))

    def _place(self, value: int, setting: str = "") -> Setting:
        """Region and byte of an address; the value where it is in none."""
        for buffer in self._buffers:
            if 0 <= value - buffer.device_address < buffer.array.size:
                names = [name for name, one in self._regions.items() if one is buffer]
                if names or setting:
                    return names[0] if names else self._name(buffer, setting), value - buffer.device_address
        return value

    def _name(self, buffer: Buffer, name: str) -> str:
        number = 1 + sum(region.split(" #")[0] == name for region in self._regions)
        region = f"{name} #{number}" if number > 1 else name
        self._regions[region] = buffer
        return region


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
    return next(differences(golden, played), None)


def differences(
    golden: Sequence[CommandRecord], played: Sequence[CommandRecord], without: Collection[str] = ()
) -> Iterator[str]:
    """Name all commands in which a recording, `without` some regions, is not golden's; each as `first_difference`."""
    for number, (right, found) in enumerate(zip(golden, played, strict=False), 1):
        if difference := _difference(right, found, without):
            yield f"command {number} of {len(golden)}, {right.described}: {difference}"
    if len(golden) != len(played):
        yield f"{len(played)} commands, golden has {len(golden)}"


def _difference(golden: CommandRecord, played: CommandRecord, without: Collection[str]) -> str | None:
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
    if [*golden.memory] != [*played.memory]:
        return f"regions are {', '.join(played.memory)}, golden's {', '.join(golden.memory)}"
    for region, right in golden.memory.items():
        if region not in without and (difference := different_byte(right, played.memory[region], region)):
            return difference
    return None


def different_byte(golden: Bytes, played: Bytes, region: str) -> str | None:
    """Name the first byte of a region that is not golden's; None where there is none."""
    if golden.size != played.size:
        return f"{region} has {played.size} bytes, golden says {golden.size}"
    if not (different := np.flatnonzero(golden != played)).size:
        return None
    place = int(different[0])
    values = f"{played[place]:#04x}, golden says {golden[place]:#04x}"
    return f"byte {place} of {region} is {values} ({different.size} bytes differ)"


def _shown(value: Any) -> str:
    return "nothing" if value is None else " at ".join(map(str, value)) if isinstance(value, tuple) else str(value)
