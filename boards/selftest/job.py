"""Self-test of a core: the stages of a small job, the job's memory, and golden's results."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ...golden.axi.regions import Bytes, JobMemory, Region
from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ..host.clock import WATCHED, ClockWatch, clock_differs
from ..host.driver import Buffer, Core, Finished, HungError

SECONDS = 10.0
"""Default time limit of a command."""
_NO_MEMORY = "memory: the core does not read or write this buffer as the program does: its address, or a cache"


def _silent(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Expectation:
    """Expected bytes of the job's memory after a command.

    Parameters
    ----------
    what : str
        Description of the contents.
    offset, size : int
        Position in the job's memory.
    crc32 : int
        CRC-32 of the bytes.
    image : array of uint8, (size,)
    """

    what: str
    offset: int
    size: int
    crc32: int
    image: Bytes = field(repr=False, compare=False)


@dataclass(frozen=True)
class SelfTestStage:
    """Command with its expected results.

    Parameters
    ----------
    name : str
        Name for messages.
    command : IntEnum
    settings : dict of str to int
        Settings by name; an address is an offset in the job's memory. Other settings keep their values.
    counters : dict of str to int
        Expected counters.
    memory : tuple of Expectation
    images : tuple of array of uint8
        Images of the parameters before the command, then after each batch or step; empty without updates.
    """

    name: str
    command: IntEnum
    settings: Mapping[str, int]
    counters: Mapping[str, int]
    memory: tuple[Expectation, ...]
    images: tuple[Bytes, ...] = ()


@dataclass
class SelfTest:
    """Stages of a self-test, and the job's memory.

    Attributes
    ----------
    memory : JobMemory
        Regions, from offset 0.
    stages : list of SelfTestStage
    copy : list of SelfTestStage
        Commands that make the core copy a part of the memory; they run before the stages.
    """

    spec: CoreSpec
    memory: JobMemory = field(default_factory=JobMemory)
    stages: list[SelfTestStage] = field(default_factory=list)
    copy: list[SelfTestStage] = field(default_factory=list)

    def place(self, region: Region, name: str = "") -> int:
        """Place a region; return its offset."""
        return self.memory.place(region, name)

    def stage(
        self,
        name: str,
        command: IntEnum,
        settings: Mapping[str, int] | None = None,
        counters: Mapping[str, int] | None = None,
        memory: Mapping[str, tuple[int, Bytes]] | None = None,
        images: Sequence[Bytes] = (),
    ) -> None:
        """Append a stage, see `SelfTestStage`; `memory` gives for each description an offset and the expected bytes."""
        expected = tuple(
            Expectation(what, offset, image.size, zlib.crc32(image.tobytes()), image.reshape(-1))
            for what, (offset, image) in (memory or {}).items()
        )
        done = SelfTestStage(name, command, dict(settings or {}), dict(counters or {}), expected, tuple(images))
        self.stages.append(done)

    def copies(self, *names: str) -> None:
        """Make the memory test from the first stages with these names."""
        self.copy += [next(stage for stage in self.stages if stage.name == name) for name in names]

    @property
    def size(self) -> int:
        """Bytes of the job's memory."""
        return self.memory.end

    @property
    def image(self) -> Bytes:
        """Initial memory without trailing zeros."""
        return self.memory.image

    def run(
        self,
        core: Core,
        clock_hz: int = 0,
        watch: ClockWatch | None = None,
        *,
        say: Callable[[str], object] = _silent,
        seconds: float = SECONDS,
    ) -> list[str]:
        """Test a core's registers, memory, all stages, and with a rate the clock; return the names of the stages.

        Parameters
        ----------
        core : Core
            Driver of the core.
        clock_hz : int
            Expected clock rate; 0: not measured.
        watch : ClockWatch, optional
            Watch with another host clock than the machine's.
        say : callable
            Called with the lines of the C programs as each test begins and ends, such as `print`.
        seconds : float
            Time limit of a command.

        Raises
        ------
        UserError
            If a test fails: names the first failing test and the difference.
        """
        spec = self.spec
        say(f"self-test: {spec.name}, signature {spec.signature:#010x}, {core.waiting(seconds)}")
        say("registers: begin")
        with _named("registers", say):
            core.try_registers(spec.signature)
        say(f"registers: right, signature {spec.signature:#010x}")
        buffer = core.allocate(self.size)
        buffer.array[:] = 0
        buffer.array[: self.image.size] = self.image
        say(f"memory: begins, {self.size} bytes at {buffer.device_address:#x}")
        for stage in self.copy:
            with _named(where := f"memory, {stage.name}", say, _NO_MEMORY):
                say(f"{where}: right, {self._run(stage, core, buffer, seconds)} cycles")
        longest = 0
        for number, stage in enumerate(self.stages, 1):
            where = f"stage {number} of {len(self.stages)}, {stage.name}"
            say(f"{where}: begins")
            with _named(where, say):
                cycles = self._run(stage, core, buffer, seconds)
                say(f"{where}: right, {cycles} cycles")
            # only commands after the last load qualify: the clock test repeats one on the loaded network
            if cycles > longest or stage.command == self.stages[0].command:
                longest, command = cycles, stage
        if clock_hz:
            self._try_clock(core, command, buffer, clock_hz, watch or ClockWatch(), say)
        say(f"self-test: all {len(self.stages)} stages are right")
        return [stage.name for stage in self.stages]

    def _run(self, stage: SelfTestStage, core: Core, buffer: Buffer, seconds: float) -> int:
        """Run a stage's command and compare its results; return its cycles."""
        buffer.flush()
        try:
            finished = self._command(stage, core, buffer, seconds)
        finally:
            buffer.invalidate()
        for name, expected in stage.counters.items():
            if finished.counts[name] != expected:
                raise UserError(f"{name} is {finished.counts[name]}, golden says {expected}")
        for item in stage.memory:
            written = buffer.array[item.offset : item.offset + item.size]
            checksum = zlib.crc32(written.tobytes())
            if checksum != item.crc32:
                nothing = "" if written.any() else ": all bytes are 0"
                raise UserError(f"{item.what} have CRC-32 {checksum:#010x}, golden says {item.crc32:#010x}{nothing}")
        return finished.cycles

    def _command(self, stage: SelfTestStage, core: Core, buffer: Buffer, seconds: float) -> Finished:
        addresses = {address.name for address in self.spec.registers.addresses}
        values = {
            name: buffer.device_address + value if name in addresses else value
            for name, value in stage.settings.items()
        }
        return core.run(stage.command, seconds=seconds, **values)

    def _try_clock(
        self,
        core: Core,
        stage: SelfTestStage,
        buffer: Buffer,
        expected: int,
        watch: ClockWatch,
        say: Callable[[str], object],
    ) -> None:
        """Repeat a command while the clock is measured; refuse an unexpected rate."""
        begun, core.watch = watch.now(), watch
        while watch.nanoseconds < WATCHED and watch.now() - begun < 10 * WATCHED:
            self._command(stage, core, buffer, SECONDS)
        core.watch = None
        if not watch.hertz:
            return
        measured = f"{watch.hertz / 1e6:.3f} MHz"
        with _named("clock", say):
            if clock_differs(watch.hertz, expected):
                raise UserError(f"{measured} instead of {expected / 1e6:.3f} MHz")
        say(f"clock: right, {measured}")


@contextlib.contextmanager
def _named(where: str, say: Callable[[str], object], more: str = "") -> Iterator[None]:
    """Context: errors name the test, and are printed, with `more` if the command has ended."""
    try:
        yield
    except UserError as error:
        say(f"{where}: wrong, {error}")
        if more and not isinstance(error, HungError):
            say(more)
        raise UserError(f"self-test, {where}: {error}") from error
