"""Host driver of any core: registers, commands, buffers.

It needs a way to read and write a register and one to get memory that the core sees. On a board with PYNQ both are
there: ``Core(CORE, overlay.core.mmio, Allocated(pynq.allocate))``, with `CORE` from ``golden/cores/NAME/registers.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...golden.axi.bus import ADDRESS_BITS, BEAT
from ...golden.axi.regions import Region
from ...golden.axi.register_map import Register
from ...golden.cores.shell import HIGH, RESET, CoreRegisters
from ...golden.errors import UserError
from .clock import ClockWatch

POLLS = 10_000_000
"""Number of times that `Core.run` polls for the end of a command before it raises an error."""
RESET_POLLS = 10_000
"""Number of times that `Core.reset` reads the register before it raises an error: 10 ms and more on a board."""


class RegisterAccess(Protocol):
    """Registers by byte offset, as PYNQ's ``MMIO`` has them."""

    def read(self, offset: int) -> int:
        """Read a 32-bit word."""

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit word."""


class Buffer(Protocol):
    """Contiguous memory that host and core share."""

    @property
    def device_address(self) -> int:
        """Byte address for the core."""

    @property
    def array(self) -> NDArray[np.uint8]:
        """View of the bytes for the host."""

    def flush(self) -> None:
        """Make what the host wrote visible to the core."""

    def invalidate(self) -> None:
        """Make what the core wrote visible to the host."""


class BufferAllocator(Protocol):
    """Allocator of buffers."""

    def allocate(self, size: int) -> Buffer:
        """Get a buffer of so many bytes, aligned to `ALIGNMENT`."""


class CoreError(UserError):
    """A command that the core ended with an error.

    Parameters
    ----------
    command : int
        The command, of the core's `IntEnum` where it is one of these.
    code : int
        The code in `status`.
    address : int
        Address of the failing burst, or the offending value.
    errors : type of IntEnum
        The core's error codes.

    Attributes
    ----------
    code : int
        A member of `errors` where the code is one.
    name : str
        Its name in lower case.
    """

    def __init__(self, command: int, code: int, address: int, errors: type[IntEnum]) -> None:
        self.command, self.address = command, address
        known = code in set(errors)
        self.code: int = errors(code) if known else code
        self.name = errors(code).name.lower() if known else f"unknown error {code}"
        super().__init__(f"{_name_of(command)} ended with {self.name} at {address:#010x}")


@dataclass(frozen=True)
class Finished:
    """Counts of a command.

    Parameters
    ----------
    cycles : int
        Clock cycles, both halves of the counter.
    counts : dict of str to int
        The counters that the core declares, by name.
    """

    cycles: int
    counts: dict[str, int]


class Core:
    """A core on a board, or a simulated one.

    Parameters
    ----------
    core : CoreRegisters
        The core's registers, commands and errors.
    registers : RegisterAccess
        Access to the registers, such as PYNQ's MMIO.
    memory : BufferAllocator or None
        Allocator of buffers; None where all addresses are known and `allocate` is not used.
    interrupt : callable, optional
        Returns after the core's interrupt, or earlier. Without it the status is polled.
    signature : int, optional
        Signature that the core must have.
    address : int
        Bits of a byte address that the core was generated with.

    Attributes
    ----------
    watch : ClockWatch or None
        Measures the core's clock while commands run.

    Raises
    ------
    UserError
        If the core has another signature.
    """

    watch: ClockWatch | None = None

    def __init__(
        self,
        core: CoreRegisters,
        registers: RegisterAccess,
        memory: BufferAllocator | None,
        interrupt: Callable[[], object] | None = None,
        signature: int | None = None,
        address: int = ADDRESS_BITS,
    ) -> None:
        self.core, self._registers, self._memory, self._interrupt = core, registers, memory, interrupt
        self._address = address
        if signature is not None:
            self.check_signature(signature)

    @property
    def signature(self) -> int:
        """Digest of the configuration that the core was generated with."""
        return self.read("signature")

    def check_signature(self, signature: int) -> None:
        """Refuse a core that was generated with another configuration.

        Raises
        ------
        UserError
            If the core has another signature.
        """
        if self.signature != signature:
            raise UserError(
                f"the core's signature is {self.signature:#010x} and not {signature:#010x}: "
                "load the bitstream that was built for this configuration"
            )

    @property
    def busy(self) -> bool:
        """Whether a command is running."""
        return bool(self._status("busy"))

    @property
    def error_address(self) -> int:
        """Byte address of the burst that failed, or the offending value, of the last command; 0 without an error."""
        return self.read(f"error_address{HIGH}") << 32 | self.read("error_address")

    def read(self, name: str) -> int:
        """Read a register by its name."""
        return int(self._registers.read(self._register(name).offset))

    def write(self, name: str, value: int) -> None:
        """Write a register by its name.

        Raises
        ------
        UserError
            If there is none, it can only be read, or the value is no 32-bit word.
        """
        register = self._register(name)
        if register.access == "R":
            raise UserError(f"register {name!r} can only be read")
        if not 0 <= value < 1 << 32:
            raise UserError(f"{name} = {value} is not in 0 to 2**32 - 1")
        self._registers.write(register.offset, int(value))

    def reset(self, polls: int = RESET_POLLS) -> None:
        """Reset the core, at any time, and wait until it is as after power-up, so that memories are to be loaded.

        To be called first, once the clock has its rate, and to end a command that hangs.

        Parameters
        ----------
        polls : int
            Number of reads of the register before an error.

        Raises
        ------
        UserError
            If the reset does not end, because the memory has not answered a burst.
        """
        pending = self.core.map[RESET.name].field("pending")
        self.write(RESET.name, pending.mask)
        for _ in range(polls):
            if not pending.of(self.read(RESET.name)):
                return
        raise UserError(
            f"the core's soft reset is pending after {polls} reads: memory has not answered a burst: "
            "load the bitstream again, which resets the bus, too"
        )

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
        if address % BEAT or address + size > 1 << self._address:
            raise UserError(
                f"a buffer of {size} bytes at {address:#x}: the core needs multiples of {BEAT} below 2**{self._address}"
            )
        return buffer

    def place(self, region: Region) -> Buffer:
        """Get a buffer for a region, with the region's image where it has one.

        Raises
        ------
        UserError
            As `allocate` does.
        """
        buffer = self.allocate(region.size)
        if region.image.size:
            buffer.array[:] = region.image
            buffer.flush()
        return buffer

    def run(self, command: int, /, *, polls: int = POLLS, **values: int) -> Finished:
        """Set registers, start a command and wait for its end.

        Parameters
        ----------
        command : int
            One of the core's commands, of their `IntEnum`.
        polls : int
            Number of times to read the status, or to wait for the interrupt, before an error.
        values : int
            Settings by name of the register; the others stay as they are.

        Raises
        ------
        CoreError
            If the core reports an error.
        UserError
            If a register or value is wrong, the core is busy, or the command does not end.
        """
        settings = {item.name: item for item in self.core.settings}
        for name in values:
            if name not in settings:
                raise UserError(f"{name!r} is not a setting: {', '.join(settings)} are")
        words = {
            register: word
            for name, value in values.items()
            for register, word in settings[name].words(int(value)).items()
        }
        if self.busy:
            raise UserError("the core is busy: wait for its last command")
        for name, value in words.items():
            self.write(name, value)
        self.write("interrupt", self.core.map["interrupt"].field("finished").mask)
        enabled = self.core.map["interrupt_enable"].field("finished").mask
        self.write("interrupt_enable", enabled if self._interrupt else 0)
        self.write("command", command)
        if self.watch:
            self.watch.watch(lambda: self.read("cycles_low"))
        self._wait(command, polls)
        self.write("interrupt", self.core.map["interrupt"].field("finished").mask)
        if self._status("error"):
            raise CoreError(command, self._status("error_code"), self.error_address, self.core.errors)
        cycles = self.read("cycles_high") << 32 | self.read("cycles_low")
        return Finished(cycles, {name: self.read(name) for name in self.core.counter_names})

    def _wait(self, command: int, polls: int) -> None:
        for _ in range(polls):
            if self._interrupt:
                self._interrupt()
            if self._status("done"):
                return
        raise UserError(f"{_name_of(command)} has not ended after {polls} polls: Core.reset ends it")

    def _status(self, field: str) -> int:
        return self.core.map["status"].field(field).of(self.read("status"))

    def _register(self, name: str) -> Register:
        try:
            return self.core.map[name]
        except KeyError:
            known = ", ".join(register.name for register in self.core.map)
            raise UserError(f"no register {name!r}; there are {known}") from None


def _name_of(command: int) -> str:
    return command.name.lower() if isinstance(command, IntEnum) else f"command {command}"


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
