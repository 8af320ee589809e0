"""A self-test: stages of a small job, what is in memory before, and what golden expects after each."""

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
"""Time that a command of a self-test may take."""
_NO_MEMORY = "memory: the core does not read or write this buffer as the program does: its address, or a cache"


def _silent(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Expectation:
    """Bytes of the job's memory after a command.

    Parameters
    ----------
    what : str
        Contents, for messages.
    offset, size : int
        Place in the job's memory.
    crc32 : int
        CRC-32 of the bytes.
    image : array of uint8, (size,)
        The bytes.
    """

    what: str
    offset: int
    size: int
    crc32: int
    image: Bytes = field(repr=False, compare=False)


@dataclass(frozen=True)
class SelfTestStage:
    """A command, and what it does.

    Parameters
    ----------
    name : str
        What is tried, for messages.
    command : IntEnum
    settings : dict of str to int
        Settings by name; of an address, its place in the job's memory. The others stay as they are.
    counters : dict of str to int
        Counters after it.
    memory : tuple of Expectation
        Bytes after it.
    images : tuple of array of uint8
        What the core updates: its image before the command, then after each batch or step; empty where it updates
        nothing.
    """

    name: str
    command: IntEnum
    settings: Mapping[str, int]
    counters: Mapping[str, int]
    memory: tuple[Expectation, ...]
    images: tuple[Bytes, ...] = ()


@dataclass
class SelfTest:
    """Stages of a self-test, and its memory.

    Parameters
    ----------
    spec : CoreSpec
        The core.

    Attributes
    ----------
    memory : JobMemory
        Regions, from offset 0 on.
    stages : list of SelfTestStage
    copy : list of SelfTestStage
        Commands by which the core copies a part of the memory: they are tried before the stages.
    """

    spec: CoreSpec
    memory: JobMemory = field(default_factory=JobMemory)
    stages: list[SelfTestStage] = field(default_factory=list)
    copy: list[SelfTestStage] = field(default_factory=list)

    def place(self, region: Region, name: str = "") -> int:
        """Give a region a place; return its offset."""
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
        """Append a stage.

        Parameters
        ----------
        name, command, settings, counters, images
            See `SelfTestStage`.
        memory : dict of str to (int, array of uint8)
            By contents, where they are afterwards, and all bytes.
        """
        expected = tuple(
            Expectation(what, offset, image.size, zlib.crc32(image.tobytes()), image.reshape(-1))
            for what, (offset, image) in (memory or {}).items()
        )
        done = SelfTestStage(name, command, dict(settings or {}), dict(counters or {}), expected, tuple(images))
        self.stages.append(done)

    def copies(self, *names: str) -> None:
        """Make the memory's check of stages that there are: the first of these names each."""
        self.copy += [next(stage for stage in self.stages if stage.name == name) for name in names]

    @property
    def size(self) -> int:
        """Bytes of the job's memory."""
        return self.memory.end

    @property
    def image(self) -> Bytes:
        """Memory before the first stage, without the zeros at its end."""
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
        """Try the registers, then the memory, then all stages on a core, and its clock if a rate is expected.

        Parameters
        ----------
        core : Core
            Driver of the core on a board, or of a simulated one.
        clock_hz : int
            Rate that the core's clock has to have; 0: it is not measured.
        watch : ClockWatch, optional
            Host's clock, if it is not that of the machine.
        say : callable
            Called with a line as each part begins and ends, such as `print`: the words of the programs in C.
        seconds : float
            Time that a command may take.

        Returns
        -------
        list of str
            Names of the stages; all of them have been right.

        Raises
        ------
        UserError
            Naming the first part that is not right, and what is different: all before it is.
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
            # what ran before a load may not run behind it: another network is there
            if cycles > longest or stage.command == self.stages[0].command:
                longest, command = cycles, stage
        if clock_hz:
            self._try_clock(core, command, buffer, clock_hz, watch or ClockWatch(), say)
        say(f"self-test: all {len(self.stages)} stages are right")
        return [stage.name for stage in self.stages]

    def _run(self, stage: SelfTestStage, core: Core, buffer: Buffer, seconds: float) -> int:
        """Run the command of a stage and compare what it left; its cycles."""
        buffer.flush()
        try:
            finished = self._command(stage, core, buffer, seconds)
        finally:
            buffer.invalidate()
        for name, expected in stage.counters.items():
            if finished.counts[name] != expected:
                raise UserError(f"{name} is {finished.counts[name]}, golden says {expected}")
        for one in stage.memory:
            written = buffer.array[one.offset : one.offset + one.size]
            found = zlib.crc32(written.tobytes())
            if found != one.crc32:
                nothing = "" if written.any() else ": all bytes are 0"
                raise UserError(f"{one.what} have CRC-32 {found:#010x}, golden says {one.crc32:#010x}{nothing}")
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
        """Repeat a command until it was watched for long enough, and refuse another clock than the expected one."""
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
    """Say what is wrong in a part, and `more` of a command that has ended; name the part in the error."""
    try:
        yield
    except UserError as error:
        say(f"{where}: wrong, {error}")
        if more and not isinstance(error, HungError):
            say(more)
        raise UserError(f"self-test, {where}: {error}") from error
