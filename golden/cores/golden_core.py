"""Golden model of a core: runs commands with settings on a memory; returns counters and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..axi.bus import BEAT, PAGE
from ..axi.regions import Bytes
from ..errors import UserError
from .core import CoreSpec, Refusal, SettingValues

Spec = TypeVar("Spec", bound=CoreSpec)
State = TypeVar("State")


class CommandError(Exception):
    """Error of a running command.

    Parameters
    ----------
    name : str
        Name of an error code of the core.
    value : int
        Offending value, or byte address of the failing burst.
    """

    def __init__(self, name: str, value: int) -> None:
        super().__init__(f"{name} at {value:#x}")
        self.name, self.value = name, value


class CoreMemory:
    """External memory of a golden core: regions of bytes by address.

    An access outside all regions ends the command with ``READ_DECERR`` or ``WRITE_DECERR``, as on the bus.

    Parameters
    ----------
    spec : CoreSpec
        Source of the core's burst lengths.

    Attributes
    ----------
    changed : list of int
        Addresses of the written regions, in the order of their first writes; the caller may clear the list.
    """

    def __init__(self, spec: CoreSpec) -> None:
        self._bursts = {"READ": spec.reader.burst * BEAT, "WRITE": spec.writer.burst * BEAT}
        self._regions: dict[int, Bytes] = {}
        self._ends: dict[int, int] = {}
        self.changed: list[int] = []

    def add(self, address: int, region: Bytes) -> None:
        """Add a region; its array is read and written in place."""
        self._regions[address] = region

    def read(self, address: int, size: int) -> Bytes:
        """Copy of `size` bytes; raises `CommandError` outside all regions."""
        return self._bytes("READ", address, size).copy()

    def write(self, address: int, image: Bytes) -> None:
        """Write bytes; raise `CommandError` outside all regions, then nothing is written."""
        self._bytes("WRITE", address, image.size)[:] = image.reshape(-1)
        start = max(start for start in self._regions if start <= address)
        self.changed += [start] if start not in self.changed else []
        self._ends[start] = max(self._ends.get(start, start), address + image.size)

    def written(self, address: int) -> Bytes:
        """Contents of the region at an address, up to the last written byte."""
        return self._regions[address][: self._ends.get(address, address) - address].copy()

    def _bytes(self, access: str, address: int, size: int) -> Bytes:
        failing = address
        for start, region in self._regions.items():
            if start <= address < start + region.size:
                if address + size <= start + region.size:
                    return region[address - start : address - start + size]
                end = start + region.size
                # bursts end at multiples of their length
                failing = max(address, end - end % min(self._bursts[access], PAGE))
        raise CommandError(f"{access}_DECERR", failing)


@dataclass(frozen=True)
class CommandResult:
    """Result of a command.

    Parameters
    ----------
    error : Refusal, optional
        Error and offending value; None without an error.
    counters : dict of str to int
        Counters that the core declares. The model has no clock, so cycles are not counted.
    """

    error: Refusal | None = None
    counters: dict[str, int] = field(default_factory=dict)


class GoldenCore(ABC, Generic[Spec]):
    """Golden model of a core, with its state between commands.

    Parameters
    ----------
    spec : CoreSpec

    Attributes
    ----------
    updates : list of array of uint8, or None
        Images of the trained parameters before a training command and after each batch or step; None to record none.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.updates: list[Bytes] | None = None
        self.reset()

    def run(self, command: int, settings: SettingValues, memory: CoreMemory) -> CommandResult:
        """Run a command; return an error or the counters.

        Parameters
        ----------
        command : int
            Any number.
        settings : mapping of str to int
            Values of all settings.
        memory : CoreMemory
            Read and written in place.
        """
        if refusal := self.spec.refusal(command, settings):
            return CommandResult(refusal)
        registers = self.spec.registers
        try:
            return CommandResult(counters=self.carry_out(registers.commands(command), settings, memory))
        except CommandError as error:
            self.recover()
            return CommandResult(Refusal(registers.errors[error.name], error.value))

    def note_update(self, image: Callable[[], Bytes]) -> None:
        """Append an image to `updates`, if recorded."""
        if self.updates is not None:
            self.updates.append(image())

    @abstractmethod
    def reset(self) -> None:
        """Forget all loaded data, like a reset of the core."""

    def recover(self) -> None:
        """Reset after an error; by default loaded data is retained."""

    @abstractmethod
    def carry_out(self, command: Any, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        """Run an accepted command; return the counters. An early end is a `CommandError`."""


def known(state: State | None, name: str) -> State:
    """Return `state`; raise `UserError` if no command has loaded it."""
    if state is None:
        raise UserError(f"no {name} have been loaded: a core computes with what its memories held at power-up")
    return state


def golden_core(spec: CoreSpec) -> GoldenCore[Any]:
    """Golden model of a core; raises `UserError` if none exists."""
    model: type[GoldenCore[Any]] | None = spec.part("golden", "golden_core", "GOLDEN")
    if model is None:
        raise UserError(f"{spec.name} has no golden core: run it in the simulator")
    return model(spec)
