"""Compiled core as a device for the host driver: registers, memory and interrupt."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden.axi.bus import BEAT
from ...golden.axi.regions import ALIGNMENT, JobMemory
from ...golden.cores.shell import RESET
from ...golden.errors import UserError
from .session import LARGEST_MEMORY, Bytes, Dram, Session

_FIRST = (1 << 32) - 2 * ALIGNMENT
"""Address of the first buffer; all others lie beyond 4 GiB."""
_POLLED = 100
"""Cycles between two reads of a pending soft reset."""
LIMIT = 10**10
"""Default limit of a command in cycles."""


class DeviceResetError(Exception):
    """The device was reset during a command."""


@dataclass
class SimulatedBuffer:
    """Buffer in the memory of a `SimulatedDevice`; implements `boards.host.driver.Buffer`.

    Parameters
    ----------
    device : SimulatedDevice
    device_address : int
    array : array of uint8
        The host's copy.
    """

    device: SimulatedDevice = field(repr=False)
    device_address: int
    array: Bytes

    def flush(self) -> None:
        """Write the host's copy to the memory."""
        self.device.put(self.device_address, self.array)

    def invalidate(self) -> None:
        """Read the memory into the host's copy."""
        self.array[:] = self.device.get(self.device_address, self.array.size)


class SimulatedDevice:
    """Compiled core with memory, as a device for the host driver `boards.host.driver.Core`.

    Writes are queued; a read, an interrupt or `get` executes them.

    Parameters
    ----------
    program : Path
        Program from `build.build`.
    dram : Dram, optional
    seed : int
        Seed of latencies and stalls.
    limit : int
        Limit of a command in cycles.
    scattered : bool
        Buffers get random instead of consecutive addresses; `seed` determines them.
    mutant, power_up : int
        See `Session`.

    Attributes
    ----------
    results : list of dict
        Results of `Session.run`.
    commands : int
        Number of awaited commands.
    buffers : list of SimulatedBuffer
    """

    def __init__(
        self,
        program: Path,
        dram: Dram | None = None,
        seed: int = 0,
        limit: int = LIMIT,
        scattered: bool = False,
        mutant: int = 0,
        power_up: int | None = None,
    ) -> None:
        self._limit, self._waited = limit, 0
        self._simulated = self._summed = 0
        self._memory = JobMemory(base=_FIRST)
        self._session = Session(program, LARGEST_MEMORY, dram, seed, mutant, power_up)
        self._scatter = Random(seed) if scattered else None
        self._faults: dict[int, tuple[str, int, int, str]] = {}
        self.buffers: list[SimulatedBuffer] = []
        self._image_bytes = 0
        self._reset_at: tuple[int, int] | None = None
        self._soft_resets: tuple[int, ...] = ()
        self.results: list[dict[str, Any]] = []
        self.commands = 0

    def allocate(self, size: int) -> SimulatedBuffer:
        """Allocate a buffer of `size` bytes; the core's accesses outside all buffers are decode errors."""
        address = self._free(size) if self._scatter else self._memory.reserve(size)
        # the core accesses whole beats
        self._session.region(address, -(-size // BEAT) * BEAT)
        if fault := self._faults.get(len(self.buffers)):
            kind, offset, count, response = fault
            self._session.fault(kind, address + offset, count, response)
        self.buffers.append(SimulatedBuffer(self, address, np.zeros(size, np.uint8)))
        return self.buffers[-1]

    def _free(self, size: int) -> int:
        """Draw a free address, a multiple of a beat."""
        assert self._scatter is not None
        while True:
            first = self._scatter.randrange(0, LARGEST_MEMORY - size, BEAT)
            others = ((one.device_address, one.device_address + one.array.size) for one in self.buffers)
            if all(first + size + BEAT <= start or end + BEAT <= first for start, end in others):
                return first

    def write(self, offset: int, value: int) -> None:
        """Write a register at a byte offset; executed before the next read."""
        self._session.write(offset, value)
        self._waited = 0

    def read(self, offset: int) -> int:
        """Read a register at a byte offset."""
        self._session.read(offset)
        return int(self._run()["reads"][-1]["value"])

    def interrupt(self) -> None:
        """Run until the command has ended.

        Raises
        ------
        DeviceResetError
            At a reset from `reset_in`.
        UserError
            If the command exceeds the limit, in one wait or in the sum of its waits.
        """
        self.commands += 1
        if self._reset_at is None or self.commands <= self._reset_at[0]:
            self._session.wait(self._limit)
            self._waited += int(self._run()["waits"][-1]["cycles"])
            if self._waited > self._limit:
                raise UserError(f"not done after interrupts in {self._waited} cycles")
            return
        after, self._reset_at = self._reset_at[1], None
        if self._soft_resets:
            self.soft_reset(after, self._soft_resets)
        else:
            self.reset(after)
            self._run()
        raise DeviceResetError

    def reset_in(self, commands: int, cycles: int, soft: tuple[int, ...] = ()) -> None:
        """Reset the core this number of cycles after the start of a command, the one after `commands` others.

        If given, `soft` makes it a `soft_reset` with these `distances`.
        """
        self._reset_at, self._soft_resets = (self.commands + commands, cycles), soft

    def no_reset(self) -> None:
        """Cancel a pending `reset_in`."""
        self._reset_at = None

    def put(self, address: int, data: Bytes) -> None:
        """Write bytes to the memory; executed before the next read."""
        self._session.load(address, data)

    def open(self, address: int, size: int) -> None:
        """Let the core access these bytes in addition to the buffers."""
        self._session.region(address, size)

    def get(self, address: int, size: int) -> Bytes:
        """Read bytes of the memory."""
        self._session.dump(address, size, "memory")
        found: Bytes = self._run()["dumps"]["memory"]
        return found

    def fault(self, kind: str, address: int, size: int, response: str) -> None:
        """Answer beats within these bytes with an error from here on; see `Session.fault`."""
        self._session.fault(kind, address, size, response)

    def fault_in(self, kind: str, port: int, beats: int, response: str) -> None:
        """Answer one beat with an error; see `Session.fault_in`."""
        self._session.fault_in(kind, port, beats, response)

    def fault_of_buffer(self, number: int, kind: str, offset: int, size: int, response: str) -> None:
        """Answer beats of a future buffer with an error; `number` counts buffers from the device's first."""
        self._faults[number] = kind, offset, size, response

    def no_faults(self) -> None:
        """Clear all faults."""
        self._faults.clear()
        self._session.no_faults()

    def reset(self, after: int = 0) -> None:
        """Run for this number of cycles, then reset."""
        self._session.cycles(after)
        self._session.reset()

    def soft_reset(self, after: int = 0, distances: tuple[int, ...] = (0,)) -> None:
        """Run for this number of cycles, request a soft reset after each of these distances, and wait for the end.

        A reset pending beyond the limit is a `UserError`.
        """
        pending, start = RESET.field("pending"), self.simulated
        self._session.cycles(after)
        for distance in distances:
            self._session.cycles(distance)
            self._session.write(RESET.offset, pending.mask)
        while pending.of(self.read(RESET.offset)):
            if self.simulated - start > self._limit + after:
                raise UserError(f"a soft reset is pending after {self.simulated - start} cycles")
            self._session.cycles(_POLLED)

    def waves(self, path: Path, period_ps: int) -> None:
        """Write all nets from here on; see `Session.waves`."""
        self._session.waves(path, period_ps)

    def end_waves(self) -> None:
        """Close the file of `waves`."""
        self._session.end_waves()
        self._run()

    def trace_image(self, image: NDArray[np.uint8]) -> None:
        """Record the monitor's image after every batch or step from here on; `image` is the present image."""
        self._session.shadow(image)
        if not self._image_bytes:
            self._session.trace()
        self._image_bytes = image.nbytes

    @property
    def traced_images(self) -> Bytes:
        """Recorded images, (batches or steps, bytes)."""
        traces = [one["trace"] for one in self.results if one["trace"] is not None]
        return np.concatenate(traces) if traces else np.empty((0, self._image_bytes), np.uint8)

    @property
    def contents(self) -> tuple[bytes, ...]:
        """Memory contents of each buffer."""
        return tuple(self.get(one.device_address, one.array.size).tobytes() for one in self.buffers)

    @property
    def values(self) -> tuple[int, ...]:
        """All register values read so far."""
        return tuple(read["value"] for one in self.results for read in one["reads"])

    @property
    def bad_responses(self) -> list[dict[str, Any]]:
        """Error responses so far; see `Session.run`."""
        return [response for one in self.results for response in one["bad_responses"]]

    @property
    def waits(self) -> list[dict[str, Any]]:
        """Results of the awaited commands so far; see `Session.run`."""
        return [wait for one in self.results for wait in one["waits"]]

    @property
    def operations(self) -> tuple[int, ...]:
        """Cycles so far by program operation, if the core's monitor shows them."""
        found = [one["operations"][1:] for one in self.results]
        return tuple(sum(some) for some in zip_longest(*found, fillvalue=0))

    @property
    def simulated(self) -> int:
        """Cycles simulated so far."""
        # adds only new results, as a polling host asks often
        self._simulated += sum(int(one["simulated"]) for one in self.results[self._summed :])
        self._summed = len(self.results)
        return self._simulated

    @property
    def seconds(self) -> float:
        """Run time of the simulator so far, in seconds."""
        return sum(float(one["seconds"]) for one in self.results)

    def _run(self) -> dict[str, Any]:
        result = self._session.run()
        for access in [*result["refused_writes"], *result["reads"]]:
            if access["response"]:
                raise UserError(f"register {access['offset']:#04x} answers with response {access['response']}")
        self.results.append(result)
        return result
