"""Host driver of the fine-tuning core: registers, commands, buffers.

It needs no more than a way to read and write a register and one to get memory that the core sees. On a board with
PYNQ these are there as they are: ``Core(overlay.core.mmio, Allocated(pynq.allocate))``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...golden.axi.register_map import Register
from ...golden.cores.instantft_registers import REGISTERS, Command, Error
from ...golden.errors import UserError

ALIGNMENT = 16
"""Of every buffer's address, in bytes: a beat of the core's memory bus."""

POLLS = 10_000_000
"""How often `Core.run` looks whether a command has ended before it gives up."""


class RegisterAccess(Protocol):
    """Registers by byte offset, as PYNQ's ``MMIO`` has them."""

    def read(self, offset: int) -> int:
        """A 32-bit word."""

    def write(self, offset: int, value: int) -> None:
        """Set a 32-bit word."""


class Buffer(Protocol):
    """Contiguous memory that host and core share."""

    @property
    def device_address(self) -> int:
        """Where the core finds it, in bytes."""

    @property
    def array(self) -> NDArray[np.uint8]:
        """Where the host finds it: a view, byte by byte."""

    def flush(self) -> None:
        """Let the core see what the host wrote."""

    def invalidate(self) -> None:
        """Let the host see what the core wrote."""


class Memory(Protocol):
    """Where buffers come from."""

    def allocate(self, size: int) -> Buffer:
        """Get a buffer of so many bytes, aligned to `ALIGNMENT`."""


class CoreError(UserError):
    """A command that the core ended with an error.

    Parameters
    ----------
    command : Command
        That ended.
    code : int
        From the status; an `Error` where it is one.
    address : int
        Of the failing burst, or the offending value.
    """

    def __init__(self, command: Command, code: int, address: int) -> None:
        self.command, self.address = command, address
        self.code: int = Error(code) if code in set(Error) else code
        self.name = Error(code).name.lower() if code in set(Error) else f"unknown error {code}"
        super().__init__(f"{command.name.lower()} ended with {self.name} at {address:#010x}")


@dataclass(frozen=True)
class Finished:
    """What the core counted during a command.

    Parameters
    ----------
    cycles, batches, misses, saturations : int
        As in the registers; `cycles` is both halves.
    """

    cycles: int
    batches: int
    misses: int
    saturations: int


class Core:
    """A core on a board.

    Parameters
    ----------
    registers : RegisterAccess
        Such as PYNQ's MMIO.
    memory : Memory or None
        Allocator of buffers; None where all addresses are known and `allocate` is not used.
    interrupt : callable, optional
        Returns after the core's interrupt, or earlier. Without it the status is polled.
    signature : int, optional
        What the core must have been generated with.

    Raises
    ------
    UserError
        If the signature is another.
    """

    def __init__(
        self,
        registers: RegisterAccess,
        memory: Memory | None,
        interrupt: Callable[[], object] | None = None,
        signature: int | None = None,
    ) -> None:
        self._registers, self._memory, self._interrupt = registers, memory, interrupt
        if signature is not None and self.signature != signature:
            raise UserError(
                f"the core's signature is {self.signature:#010x} and not {signature:#010x}: "
                "load the bitstream that was built for this configuration"
            )

    @property
    def signature(self) -> int:
        """Which configuration the core was generated with."""
        return self.read("signature")

    @property
    def busy(self) -> bool:
        """Whether a command is running."""
        return bool(self._status("busy"))

    def read(self, name: str) -> int:
        """A register by its name."""
        return int(self._registers.read(_register(name).offset))

    def write(self, name: str, value: int) -> None:
        """Set a register by its name.

        Raises
        ------
        UserError
            If there is none, it can only be read, or the value is no 32-bit word.
        """
        register = _register(name)
        if register.access == "R":
            raise UserError(f"register {name!r} can only be read")
        if not 0 <= value < 1 << 32:
            raise UserError(f"{name} = {value} is not in 0 to 2**32 - 1")
        self._registers.write(register.offset, int(value))

    def allocate(self, size: int) -> Buffer:
        """Get a buffer of so many bytes that the core can work on.

        Raises
        ------
        UserError
            If there is no memory, or it gives a buffer that the core cannot address.
        """
        if self._memory is None:
            raise UserError("this core has no memory to allocate from: give Core one")
        buffer = self._memory.allocate(size)
        address = buffer.device_address
        if address % ALIGNMENT or address + size > 1 << 32:
            raise UserError(
                f"a buffer of {size} bytes at {address:#x}: the core needs multiples of {ALIGNMENT} below 4 GiB"
            )
        return buffer

    def run(self, command: Command, /, *, polls: int = POLLS, **values: int) -> Finished:
        """Set registers, start a command and wait for its end.

        Parameters
        ----------
        command : Command
            What to do.
        polls : int
            How often to look, or to wait for the interrupt, before giving up.
        values : int
            For registers, by name; the others stay as they are.

        Raises
        ------
        CoreError
            If the core reports an error.
        UserError
            For a wrong register or value, a core that is busy, or one that does not end.
        """
        for name in values:
            if _register(name).name not in _settings():
                raise UserError(f"{name!r} is not a setting: {', '.join(_settings())} are")
        if self.busy:
            raise UserError("the core is busy: wait for its last command")
        for name, value in values.items():
            self.write(name, value)
        self.write("interrupt", REGISTERS["interrupt"].field("finished").mask)
        enabled = REGISTERS["interrupt_enable"].field("finished").mask
        self.write("interrupt_enable", enabled if self._interrupt else 0)
        self.write("command", command)
        self._wait(command, polls)
        self.write("interrupt", REGISTERS["interrupt"].field("finished").mask)
        if self._status("error"):
            raise CoreError(command, self._status("error_code"), self.read("error_address"))
        cycles = self.read("cycles_high") << 32 | self.read("cycles_low")
        return Finished(cycles, *(self.read(name) for name in ("batches", "misses", "saturations")))

    def _wait(self, command: Command, polls: int) -> None:
        for _ in range(polls):
            if self._interrupt:
                self._interrupt()
            if self._status("done"):
                return
        raise UserError(f"{command.name.lower()} has not ended after {polls} polls: reset the core")

    def _status(self, field: str) -> int:
        return REGISTERS["status"].field(field).of(self.read("status"))


class Allocated:
    """Memory from a function that gives arrays with ``device_address``, ``flush`` and ``invalidate``.

    Parameters
    ----------
    allocate : callable
        ``pynq.allocate``, or what takes ``shape`` and ``dtype`` as it does.
    """

    def __init__(self, allocate: Callable[..., Any]) -> None:
        self._allocate = allocate

    def allocate(self, size: int) -> Buffer:
        """Get a buffer of so many bytes."""
        return _ArrayBuffer(self._allocate(shape=(size,), dtype=np.uint8))


class _ArrayBuffer:
    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def device_address(self) -> int:
        return int(self._array.device_address)

    @property
    def array(self) -> NDArray[np.uint8]:
        return np.asarray(self._array)

    def flush(self) -> None:
        self._array.flush()

    def invalidate(self) -> None:
        self._array.invalidate()


def _settings() -> list[str]:
    return [register.name for register in REGISTERS if register.access == "RW" and register.name != "interrupt_enable"]


def _register(name: str) -> Register:
    try:
        return REGISTERS[name]
    except KeyError:
        known = ", ".join(register.name for register in REGISTERS)
        raise UserError(f"no register {name!r}; there are {known}") from None
