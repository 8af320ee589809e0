"""Host driver of any core: registers, commands, buffers.

It needs a way to read and write a register and one to get memory that the core sees. On a board with PYNQ both are
there: ``Core(CORE, overlay.core.mmio, Allocated(pynq.allocate))``, with `CORE` from ``golden/cores/NAME/registers.py``.
Without board and RTL the golden model takes the commands: ``Core.on(spec, "golden")``.
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
"""Time that a command may take before `Core.run` raises an error."""
ALL_ONES = 0xFFFF_FFFF
"""Word that a read gives where nothing answers."""
PATTERNS = (0xA5A5_A5A5, 0x5A5A_5A5A, 0)
"""Words that a register is tried with."""
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


class Device(RegisterAccess, BufferAllocator, Protocol):
    """Registers, memory and interrupt of a core, all in one object."""

    def interrupt(self) -> object:
        """Return after the core's interrupt."""


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
    note : str
        What the address is of, in words; empty where that is not known.

    Attributes
    ----------
    code : int
        A member of `errors` where the code is one.
    name : str
        Its name in lower case.
    """

    def __init__(self, command: int, code: int, address: int, errors: type[IntEnum], note: str = "") -> None:
        self.command, self.address = command, address
        known = code in set(errors)
        self.code: int = errors(code) if known else code
        self.name = _error_name(code, errors)
        at = f"{address:#010x}{': ' if note else ''}{note}"
        super().__init__(f"{_name_of(command)} ended with {self.name} at {at}")


class HungError(UserError):
    """A command that has not ended in time.

    Parameters
    ----------
    command : int
        The command, of the core's `IntEnum` where it is one of these.
    after : str
        Which limit it has reached.
    seconds : float
        Time that it has taken.
    status : int
        Register of this name.
    state : str
        Status, error, its address and cycles in words.
    cycles : int
        Clock cycles so far.
    counting : bool
        Whether they still count.

    Attributes
    ----------
    megahertz : float
        Clock rate that the cycle counter shows; 0 where it stands still.
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
    clock : callable
        Seconds of a clock that never goes back.

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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core, self._registers, self._memory, self._interrupt = core, registers, memory, interrupt
        self._address, self._clock = address, clock
        if signature is not None:
            self.check_signature(signature)

    @classmethod
    def on(cls, spec: CoreSpec, device: Device | Literal["golden"]) -> Self:
        """Make the driver of a core on a device; ``"golden"`` is a new `GoldenDevice`, other names are refused."""
        if isinstance(device, str):
            from .golden_device import GoldenDevice

            if device != "golden":
                raise UserError(f"device = {device!r}: 'golden', or an object with registers, memory and interrupt")
            device = GoldenDevice(spec)
        return cls(spec.registers, device, device, device.interrupt)

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
        found = self.signature
        if found == signature:
            return
        meaning = {
            ALL_ONES: "nothing decodes this address: no bitstream is loaded, or the address is another one",
            0: "the core's clock is off, or it is in reset",
        }.get(found, "the bitstream is of other settings: load the one of this package")
        raise UserError(f"signature {found:#010x} instead of {signature:#010x}: {meaning}")

    def try_registers(self, signature: int) -> None:
        """Check that the core answers: its signature, a soft reset, then its first setting, written and read back.

        Raises
        ------
        UserError
            If the core has another signature, cannot be reset, or does not keep what is written.
        """
        self.check_signature(signature)
        self.reset()
        name = self.core.settings[0].registers[0]
        for pattern in PATTERNS:
            self.write(name, pattern)
            if (found := self.read(name)) != pattern:
                raise UserError(f"a register does not keep what is written: it reads {found:#010x}")

    def waiting(self, seconds: float) -> str:
        """Say how the end of a command is waited for, in words."""
        return f"{'with interrupt' if self._interrupt else 'polled'}, time limit {seconds:g} s"

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
            "a soft reset does not end: memory does not answer a burst, or the core's clock has stopped: load the "
            "bitstream again"
        )

    def allocate(self, size: int, name: str = "a buffer") -> Buffer:
        """Get a buffer of so many bytes that the core can work on; errors have its name.

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
                f"{name} of {size} bytes at {address:#x}: the core needs multiples of {BEAT} below 2**{self._address}, "
                "up to the last byte"
            )
        return buffer

    def place(self, region: Region) -> Buffer:
        """Get a buffer for a region, with the region's image where it has one.

        Raises
        ------
        UserError
            As `allocate` does.
        """
        buffer = self.allocate(region.size, region.register)
        if region.image.size:
            buffer.array[:] = region.image
            buffer.flush()
        return buffer

    def run(self, command: int, /, *, polls: int | None = None, seconds: float = SECONDS, **values: int) -> Finished:
        """Set registers, start a command and wait for its end.

        Parameters
        ----------
        command : int
            One of the core's commands, of their `IntEnum`.
        polls : int, optional
            Number of times to read the status, or to wait for the interrupt, before an error; any number by default.
        seconds : float
            Time before an error. It is looked at behind each read of the status, so a function that waits for the
            interrupt has to return at times.
        values : int
            Settings by name of the register; the others stay as they are.

        Raises
        ------
        CoreError
            If the core reports an error.
        HungError
            If the command does not end in time.
        UserError
            If a register or value is wrong, or the core is busy.
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
        """Name the regions that a command was refused for, or say that an access left the address bits."""
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
        """Describe a command that has not ended; the cycle counter tells whether the core's clock runs."""
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
