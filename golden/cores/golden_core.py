"""Golden model of a core: commands, settings and memory in; memory, counters and errors out."""

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
    """An error that ends a command after its start.

    Parameters
    ----------
    name : str
        Name of the error among those of the core.
    value : int
        Offending value, or byte address of the burst that failed.
    """

    def __init__(self, name: str, value: int) -> None:
        super().__init__(f"{name} at {value:#x}")
        self.name, self.value = name, value


class CoreMemory:
    """Memory of a golden core: arrays of bytes, each at an address.

    An access outside of them ends a command with ``READ_DECERR`` or ``WRITE_DECERR``, as an interconnect answers it.

    Parameters
    ----------
    spec : CoreSpec
        The core, whose bursts have a longest length.

    Attributes
    ----------
    changed : list of int
        Addresses of the regions that have been written, in the order of their first writes, until someone clears it.
    """

    def __init__(self, spec: CoreSpec) -> None:
        self._bursts = {"READ": spec.reader.burst * BEAT, "WRITE": spec.writer.burst * BEAT}
        self._regions: dict[int, Bytes] = {}
        self._ends: dict[int, int] = {}
        self.changed: list[int] = []

    def add(self, address: int, region: Bytes) -> None:
        """Add a region, whose array is read and written in place."""
        self._regions[address] = region

    def read(self, address: int, size: int) -> Bytes:
        """Read so many bytes: a copy.

        Raises
        ------
        CommandError
            If one of them is in no region.
        """
        return self._bytes("READ", address, size).copy()

    def write(self, address: int, image: Bytes) -> None:
        """Write bytes.

        Raises
        ------
        CommandError
            If the place of one of them is in no region; nothing is written then.
        """
        self._bytes("WRITE", address, image.size)[:] = image.reshape(-1)
        start = max(start for start in self._regions if start <= address)
        self.changed += [start] if start not in self.changed else []
        self._ends[start] = max(self._ends.get(start, start), address + image.size)

    def written(self, address: int) -> Bytes:
        """Contents of the region at an address, up to the last byte that has been written."""
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
    """End of a command.

    Parameters
    ----------
    error : Refusal, optional
        Error and offending value; None where the command ended without an error.
    counters : dict of str to int
        Counters that the core declares. The model has no clock, and counts no cycles.
    """

    error: Refusal | None = None
    counters: dict[str, int] = field(default_factory=dict)


class GoldenCore(ABC, Generic[Spec]):
    """Golden model of a core, with the state that the core holds between commands.

    Parameters
    ----------
    spec : CoreSpec
        Parameters of the core.

    Attributes
    ----------
    updates : list of array of uint8, or None
        Image of what a training command updates, before it and after each batch or step; None where nobody asks for it.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.updates: list[Bytes] | None = None
        self.reset()

    def run(self, command: int, settings: SettingValues, memory: CoreMemory) -> CommandResult:
        """Carry out a command.

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
        """Add an image to `updates`, if these are asked for."""
        if self.updates is not None:
            self.updates.append(image())

    @abstractmethod
    def reset(self) -> None:
        """Forget what commands have loaded, as a reset of the core does."""

    def recover(self) -> None:
        """Reset all but what commands have loaded, as a core does behind an error."""

    @abstractmethod
    def carry_out(self, command: Any, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        """Carry out a command that is not refused, and return the counters.

        Raises
        ------
        CommandError
            If the command ends early.
        """


def known(state: State | None, name: str) -> State:
    """Refuse to compute with what memories hold at power-up."""
    if state is None:
        raise UserError(f"no {name} have been loaded: a core computes with what its memories held at power-up")
    return state


def golden_core(spec: CoreSpec) -> GoldenCore[Any]:
    """Make the golden model of a core.

    Raises
    ------
    UserError
        If the core has none.
    """
    model: type[GoldenCore[Any]] | None = spec.part("golden", "golden_core", "GOLDEN")
    if model is None:
        raise UserError(f"{spec.name} has no golden core: run it in the simulator")
    return model(spec)
