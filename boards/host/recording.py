"""Recordings of a host's commands on a core, and the first difference of two recordings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...golden.axi.regions import Bytes
from .driver import Buffer, Core, CoreError, Finished

Setting = int | tuple[str, int]
"""Value of a setting; for an address, the region's name and the byte offset in the region."""


@dataclass(frozen=True, eq=False)
class CommandRecord:
    """Command and its effects.

    Parameters
    ----------
    command : str
        Name of the command, or the number of an unknown command.
    settings : dict of str to int or (str, int)
        Written settings.
    error : tuple of (str, int), optional
        Error name, and offending value or address; None without an error.
    counters : dict of str to int
        Counters; empty after an error.
    memory : dict of str to array of uint8
        Contents of all regions afterwards.
    cycles : int
        Clock cycles, 0 after an error; comparisons ignore them.
    """

    command: str
    settings: dict[str, Setting]
    error: tuple[str, Setting] | None
    counters: dict[str, int]
    memory: dict[str, Bytes]
    cycles: int = 0

    @property
    def described(self) -> str:
        """Text of the command with its settings, addresses left out."""
        numbers = [f"{name}={value}" for name, value in self.settings.items() if isinstance(value, int)]
        return f"{self.command}({', '.join(numbers)})" if numbers else self.command


class RecordingCore(Core):
    """`Core` with a recording of all commands.

    A region has the name with which its buffer was allocated; a buffer from before the recording gets the name of the
    setting that holds its address. Repeated names get a number.

    Attributes
    ----------
    records : list of CommandRecord
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._buffers: list[Buffer] = []
        self.begin()
        super().__init__(*arguments, **options)

    def begin(self) -> None:
        """Start a new recording."""
        self.records: list[CommandRecord] = []
        self._regions: dict[str, Buffer] = {}

    def allocate(self, size: int, name: str = "a buffer") -> Buffer:
        """Allocate a buffer for the recording."""
        self._buffers.append(super().allocate(size, name))
        self._name(self._buffers[-1], name)
        return self._buffers[-1]

    def run(self, command: int, /, **options: Any) -> Finished:
        """Run a command as `Core.run` does, and record the effects."""
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
        """Region and byte offset of an address; outside all regions the address itself."""
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
    """Describe the first command in which a recording of the same script differs from golden's; None if all are equal.

    The line names setting, error, counter, or region and byte, with both values. Cycles are not compared.
    """
    return next(differences(golden, played), None)


def differences(
    golden: Sequence[CommandRecord], played: Sequence[CommandRecord], without: Collection[str] = ()
) -> Iterator[str]:
    """Describe all differing commands, as `first_difference` does; `without` names regions that are not compared."""
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
    """Describe the first differing byte of a region; None if all are equal."""
    if golden.size != played.size:
        return f"{region} has {played.size} bytes, golden says {golden.size}"
    if not (different := np.flatnonzero(golden != played)).size:
        return None
    place = int(different[0])
    values = f"{played[place]:#04x}, golden says {golden[place]:#04x}"
    return f"byte {place} of {region} is {values} ({different.size} bytes differ)"


def _shown(value: Any) -> str:
    return "nothing" if value is None else " at ".join(map(str, value)) if isinstance(value, tuple) else str(value)
