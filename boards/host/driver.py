"""Host driver of any core: registers, commands, buffers.

On a board with PYNQ: ``Core(CORE, overlay.core.mmio, Allocated(pynq.allocate))``, with `CORE` from
``golden/cores/NAME/registers.py``. On the golden model, without board and RTL: ``Core.on(spec, "golden")``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ...golden.axi.bus import ADDRESS_BITS, BEAT
from ...golden.axi.regions import Region
from ...golden.axi.register_map import Register
from ...golden.cores.core import CoreSpec
from ...golden.cores.shell import HIGH, RESET, CoreRegisters
from ...golden.errors import UserError
from .clock import ClockWatch

SECONDS = 600.0
"""Default time limit of a command in `Core.run`."""
ALL_ONES = 0xFFFF_FFFF
"""Word that a read returns if nothing decodes the address."""
PATTERNS = (0xA5A5_A5A5, 0x5A5A_5A5A, 0)
"""Words written to a register to test it."""
RESET_POLLS = 10_000
"""Default number of register reads before `Core.reset` fails: they take at least 10 ms on a board."""


class RegisterAccess(Protocol):
    """Access to registers by byte offset, as in PYNQ's ``MMIO``."""

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
        """Make the host's writes visible to the core."""

    def invalidate(self) -> None:
        """Make the core's writes visible to the host."""


class BufferAllocator(Protocol):
    """Allocator of buffers."""

    def allocate(self, size: int) -> Buffer:
        """Allocate a buffer of `size` bytes, aligned to `ALIGNMENT`."""


class CoreDevice(RegisterAccess, BufferAllocator, Protocol):
    """A core's registers, memory and interrupt in one object."""

    def interrupt(self) -> object:
        """Return after the core's interrupt."""


class CoreError(UserError):
    """Command ended by an error of the core.

    Parameters
    ----------
    command : int
        Member of the core's `IntEnum` if known.
    code : int
        Code in `status`; the attribute is a member of `errors` if known.
    address : int
        Address of the failing burst, or the refused value.
    errors : type of IntEnum
        Error codes of the core.
    note : str
        What lies at the address, in words; empty if unknown.

    Attributes
    ----------
    name : str
        Name of the error in lower case.
    """

    def __init__(self, command: int, code: int, address: int, errors: type[IntEnum], note: str = "") -> None:
        self.command, self.address = command, address
        known = code in set(errors)
        self.code: int = errors(code) if known else code
        self.name = _error_name(code, errors)
        at = f"{address:#010x}{': ' if note else ''}{note}"
        super().__init__(f"{_name_of(command)} ended with {self.name} at {at}")


class HungError(UserError):
    """Command that exceeds a time limit.

    Parameters
    ----------
    command : int
        Member of the core's `IntEnum` if known.
    after : str
        The exceeded limit, in words.
    seconds : float
        Time since the start.
    status : int
        Register `status`.
    state : str
        Status, error, error address and cycles in words.
    cycles : int
        Clock cycles of the command so far.
    counting : bool
        Whether the cycle counter still counts.

    Attributes
    ----------
    megahertz : float
        Clock rate by the cycle counter; 0 if the counter stands still.
    """

    def __init__(
        self, command: int, after: str, seconds: float, status: int, state: str, cycles: int, counting: bool
    ) -> None:
        self.command, self.seconds, self.status, self.cycles = command, seconds, status, cycles
        self.megahertz = cycles / seconds / 1e6 if counting and seconds else 0.0
        if not counting:
            clock = " standing still: the core's clock has stopped, or it is in reset"
        else:
            clock = f" counting, clock {self.megahertz:.1f} MHz" if self.megahertz else " counting"
        super().__init__(f"{_name_of(command)} has not ended after {after}: {state}{clock}")


@dataclass(frozen=True)
class Finished:
    """Result of a command: clock cycles, and the core's counters by name."""

    cycles: int
    counts: dict[str, int]


class Core:
    """Driver of a core on a board, in a simulator or in golden.

    Parameters
    ----------
    core : CoreRegisters
        Registers, commands and errors of the core.
    registers : RegisterAccess
    memory : BufferAllocator or None
        Allocator for `allocate`; None if the caller knows all addresses.
    interrupt : callable, optional
        Returns once the core's interrupt has come, or earlier. Without an interrupt the driver polls the status.
    signature : int, optional
        Expected signature; a difference is a `UserError`.
    address : int
        Number of bits of the core's byte addresses.
    clock : callable
        Returns the seconds of a monotonic clock.

    Attributes
    ----------
    watch : ClockWatch or None
        Measures the core's clock while commands run.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core, self._registers, self._memory, self._interrupt = core, registers, memory, interrupt
        self._address, self._clock = address, clock
        if signature is not None:
            self.check_signature(signature)

    @classmethod
    def on(cls, spec: CoreSpec, device: CoreDevice | Literal["golden"]) -> Self:
        """Make the driver of a core on a device; ``"golden"`` is a new `GoldenDevice`, any other name a `UserError`."""
        if isinstance(device, str):
            from .golden_device import GoldenDevice

            if device != "golden":
                raise UserError(f"device = {device!r}: 'golden', or an object with registers, memory and interrupt")
            device = GoldenDevice(spec)
        return cls(spec.registers, device, device, device.interrupt)

    @property
    def signature(self) -> int:
        """Digest of the core's configuration."""
        return self.read("signature")

    def check_signature(self, signature: int) -> None:
        """Raise a `UserError` if the core has another signature, with the likely cause."""
        found = self.signature
        if found == signature:
            return
        meaning = {
            ALL_ONES: "nothing decodes this address: no bitstream is loaded, or the address is another one",
            0: "the core's clock is off, or it is in reset",
        }.get(found, "the bitstream is of other settings: load the one of this package")
        raise UserError(f"signature {found:#010x} instead of {signature:#010x}: {meaning}")

    def try_registers(self, signature: int) -> None:
        """Check the signature, the soft reset, and that the first setting reads back as written.

        A `UserError` names the first failing check.
        """
        self.check_signature(signature)
        self.reset()
        name = self.core.settings[0].registers[0]
        for pattern in PATTERNS:
            self.write(name, pattern)
            if (found := self.read(name)) != pattern:
                raise UserError(f"a register does not keep what is written: it reads {found:#010x}")

    def waiting(self, seconds: float) -> str:
        """How the driver waits for the end of a command, in words."""
        return f"{'with interrupt' if self._interrupt else 'polled'}, time limit {seconds:g} s"

    @property
    def busy(self) -> bool:
        """Whether a command is running."""
        return bool(self._status("busy"))

    @property
    def error_address(self) -> int:
        """Byte address of the last command's failing burst, or the refused value; 0 without an error."""
        return self.read(f"error_address{HIGH}") << 32 | self.read("error_address")

    def read(self, name: str) -> int:
        """Read a register by name."""
        return int(self._registers.read(self._register(name).offset))

    def write(self, name: str, value: int) -> None:
        """Write a register by name; a read-only register or a value beyond 32 bits is a `UserError`."""
        register = self._register(name)
        if register.access == "R":
            raise UserError(f"register {name!r} can only be read")
        if not 0 <= value < 1 << 32:
            raise UserError(f"{name} = {value} is not in 0 to 2**32 - 1")
        self._registers.write(register.offset, int(value))

    def reset(self, polls: int = RESET_POLLS) -> None:
        """Soft-reset the core at any time and wait for the end; its memories have to be loaded again.

        Call it first, once the clock is stable, and to end a hanging command. A `UserError` if the reset is still
        pending after `polls` reads, as when memory does not answer a burst.
        """
        pending = self.core.map[RESET.name].field("pending")
        self.write(RESET.name, pending.mask)
        for _ in range(polls):
            if not pending.of(self.read(RESET.name)):
                return
        raise UserError(
            "a soft reset does not end: memory does not answer a burst, or the core's clock has stopped: load the "
            "bitstream again"
        )

    def allocate(self, size: int, name: str = "a buffer") -> Buffer:
        """Allocate a buffer that errors call `name`; a `UserError` if the core cannot reach the address."""
        if self._memory is None:
            raise UserError("this core has no memory to allocate from: give Core one")
        buffer = self._memory.allocate(size)
        address = buffer.device_address
        if address % BEAT or address + size > 1 << self._address:
            raise UserError(
                f"{name} of {size} bytes at {address:#x}: the core needs multiples of {BEAT} below 2**{self._address}, "
                "up to the last byte"
            )
        return buffer

    def place(self, region: Region) -> Buffer:
        """Allocate a buffer for a region, and write the region's image, if any; errors as in `allocate`."""
        buffer = self.allocate(region.size, region.register)
        if region.image.size:
            buffer.array[:] = region.image
            buffer.flush()
        return buffer

    def run(self, command: int, /, *, polls: int | None = None, seconds: float = SECONDS, **values: int) -> Finished:
        """Write settings, start a command and wait for its end.

        Parameters
        ----------
        command : int
            Member of the core's command `IntEnum`.
        polls : int, optional
            Largest number of status reads, or of interrupts; by default no limit.
        seconds : float
            Time limit. It is checked after each read of the status, so `interrupt` must return now and then.
        values : int
            Settings by name; others keep their values.

        Raises
        ------
        CoreError
            If the core reports an error.
        HungError
            If the command reaches a limit.
        UserError
            If a name or value is wrong, or the core is busy.
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
        self._wait(command, polls, seconds)
        self.write("interrupt", self.core.map["interrupt"].field("finished").mask)
        if self._status("error"):
            code, address = self._status("error_code"), self.error_address
            raise CoreError(command, code, address, self.core.errors, self._note(command, code, address))
        return Finished(self._cycles, {name: self.read(name) for name in self.core.counter_names})

    def _note(self, command: int, code: int, address: int) -> str:
        """Name the refused regions of a command, or an access beyond the address bits."""
        if _error_name(code, self.core.errors) == "bad_address":
            used = (item for item in self.core.addresses if command in item.commands)
            at = {item.name: self.read(item.name + HIGH) << 32 | self.read(item.name) for item in used}
            return ", ".join(name for name, place in at.items() if place == address)
        beyond = _error_name(code, self.core.errors).endswith("_decerr") and address >> self._address
        return f"a region ends beyond the core's {self._address} address bits" if beyond else ""

    def _wait(self, command: int, polls: int | None, seconds: float) -> None:
        start, polled = self._clock(), 0
        while True:
            if self._interrupt:
                self._interrupt()
            status = self.read("status")
            if status == ALL_ONES:
                raise UserError(f"{_name_of(command)}: the registers do not answer: status {status:#010x}")
            if self._status("done", status):
                return
            polled += 1
            taken = self._clock() - start
            if polls is not None and polled >= polls:
                raise self._hung(command, f"{polls} polls", taken, status)
            if taken >= seconds:
                raise self._hung(command, f"{taken:.1f} s", taken, status)

    def _hung(self, command: int, after: str, taken: float, status: int) -> HungError:
        """Describe a hung command; two reads of the cycle counter show whether the core's clock runs."""
        code, cycles = self._status("error_code", status), self._cycles
        name = _error_name(code, self.core.errors) if code else "none"
        state = (
            f"status {status:#010x}, error {code} ({name}) at {self.error_address if code else 0:#x}, {cycles} cycles"
        )
        return HungError(command, after, taken, status, state, cycles, counting=self._cycles != cycles)

    @property
    def _cycles(self) -> int:
        return self.read("cycles_high") << 32 | self.read("cycles_low")

    def _status(self, field: str, status: int | None = None) -> int:
        return self.core.map["status"].field(field).of(self.read("status") if status is None else status)

    def _register(self, name: str) -> Register:
        try:
            return self.core.map[name]
        except KeyError:
            known = ", ".join(register.name for register in self.core.map)
            raise UserError(f"no register {name!r}; there are {known}") from None


def _error_name(code: int, errors: type[IntEnum]) -> str:
    return errors(code).name.lower() if code in set(errors) else f"unknown error {code}"


def _name_of(command: int) -> str:
    return command.name.lower() if isinstance(command, IntEnum) else f"command {command}"


class Allocated:
    """Memory from ``pynq.allocate``, or from a function with its ``shape``, ``dtype`` and arrays."""

    def __init__(self, allocate: Callable[..., Any]) -> None:
        self._allocate = allocate

    def allocate(self, size: int) -> Buffer:
        """Allocate a buffer of `size` bytes."""
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
