"""A self-test: stages of a small job, what is in memory before, and what golden expects after each."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ...golden.axi.regions import Bytes, JobMemory, Region
from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ..host.clock import WATCHED, ClockWatch, clock_differs
from ..host.driver import Core, CoreError


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
    """

    name: str
    command: IntEnum
    settings: Mapping[str, int]
    counters: Mapping[str, int]
    memory: tuple[Expectation, ...]


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
    """

    spec: CoreSpec
    memory: JobMemory = field(default_factory=JobMemory)
    stages: list[SelfTestStage] = field(default_factory=list)

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
    ) -> None:
        """Append a stage.

        Parameters
        ----------
        name, command, settings, counters
            See `SelfTestStage`.
        memory : dict of str to (int, array of uint8)
            By contents, where they are afterwards, and all bytes.
        """
        expected = tuple(
            Expectation(what, offset, image.size, zlib.crc32(image.tobytes()), image.reshape(-1))
            for what, (offset, image) in (memory or {}).items()
        )
        self.stages.append(SelfTestStage(name, command, dict(settings or {}), dict(counters or {}), expected))

    @property
    def size(self) -> int:
        """Bytes of the job's memory."""
        return self.memory.end

    @property
    def image(self) -> Bytes:
        """Memory before the first stage, without the zeros at its end."""
        return self.memory.image

    def run(self, core: Core, clock_hz: int = 0, watch: ClockWatch | None = None) -> list[str]:
        """Run all stages on a core, and measure its clock if a rate is expected.

        Parameters
        ----------
        core : Core
            Driver of the core on a board, or of a simulated one.
        clock_hz : int
            Rate that the core's clock has to have; 0: it is not measured.
        watch : ClockWatch, optional
            Host's clock, if it is not that of the machine.

        Returns
        -------
        list of str
            Names of the stages; all of them have been right.

        Raises
        ------
        UserError
            Naming the first stage that is not right, and what is different: all before it is; or the clock.
        """
        core.check_signature(self.spec.signature)
        core.reset()
        buffer = core.allocate(self.size)
        buffer.array[:] = 0
        buffer.array[: self.image.size] = self.image
        addresses = {address.name for address in self.spec.registers.addresses}
        longest: tuple[int, IntEnum, dict[str, int]] | None = None
        for number, stage in enumerate(self.stages):
            where = f"self-test, stage {number + 1} of {len(self.stages)}, {stage.name}"
            buffer.flush()
            values = {
                name: buffer.device_address + value if name in addresses else value
                for name, value in stage.settings.items()
            }
            try:
                finished = core.run(stage.command, **values)
            except CoreError as error:
                raise UserError(f"{where}: {error}") from error
            if longest is None or finished.cycles > longest[0]:
                longest = finished.cycles, stage.command, values
            buffer.invalidate()
            for name, value in stage.counters.items():
                if finished.counts[name] != value:
                    raise UserError(f"{where}: {name} is {finished.counts[name]}, golden says {value}")
            for one in stage.memory:
                found = zlib.crc32(buffer.array[one.offset : one.offset + one.size].tobytes())
                if found != one.crc32:
                    raise UserError(f"{where}: {one.what} have CRC-32 {found:#010x}, golden says {one.crc32:#010x}")
        if clock_hz and longest:
            _check_clock(core, longest[1], longest[2], clock_hz, watch or ClockWatch())
        return [stage.name for stage in self.stages]


def _check_clock(core: Core, command: IntEnum, values: Mapping[str, int], expected: int, watch: ClockWatch) -> None:
    """Repeat a command until it was watched for long enough, and refuse another clock than the expected one."""
    begun, core.watch = watch.now(), watch
    while watch.nanoseconds < WATCHED and watch.now() - begun < 10 * WATCHED:
        core.run(command, **values)
    core.watch = None
    if watch.hertz and clock_differs(watch.hertz, expected):
        raise UserError(
            f"self-test: all stages are right, but the clock has {watch.hertz / 1e6:.3f} MHz and not "
            f"{expected / 1e6:.3f} MHz"
        )
