"""A compiled core as a device for the host driver: registers, memory and interrupt."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden.axi.regions import ALIGNMENT, JobMemory
from .session import Bytes, Dram, Session

LIMIT = 10**10
"""Cycles that a command may take at most, by default."""


@dataclass
class SimulatedBuffer:
    """Buffer in the memory of a `SimulatedDevice`; implements `boards.host.driver.Buffer`.

    Parameters
    ----------
    device : SimulatedDevice
        Owner of the memory.
    device_address : int
        Byte address.
    array : array of uint8
        The host's copy: `flush` writes it to the device's memory, `invalidate` reads it back.
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
    """Compiled core with its memory, as the host driver `boards.host.driver.Core` drives one on a board.

    It implements the driver's `RegisterAccess` (`read`, `write`), `Memory` (`allocate`) and interrupt. Writes are
    collected; a read, an interrupt or `get` runs the program, which goes on from the state that the last run saved.

    Parameters
    ----------
    program : Path
        Savable program from `build.build`.
    dram : Dram, optional
        Behaviour of the memory.
    seed : int
        Seed of the memory's random latencies and of all stalls.
    limit : int
        Cycles that a command may take at most.

    Attributes
    ----------
    sessions : list of dict
        Result of each run of the program, see `Session.run`.
    """

    def __init__(self, program: Path, dram: Dram | None = None, seed: int = 0, limit: int = LIMIT) -> None:
        self._program, self._dram, self._seed, self._limit = program, dram, seed, limit
        folder = tempfile.mkdtemp(prefix="fabtune-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._state = Path(folder, "state")
        self._pending: list[Callable[[Session], None]] = []
        self._memory = JobMemory(base=ALIGNMENT)
        self._image_bytes = 0
        self._start: Bytes | None = None
        self._faults: list[tuple[str, int, int, str]] = []
        self.sessions: list[dict[str, Any]] = []

    def allocate(self, size: int) -> SimulatedBuffer:
        """Get a buffer of so many bytes behind the last one; the memory grows with it."""
        return SimulatedBuffer(self, self._memory.reserve(size), np.zeros(size, np.uint8))

    def write(self, offset: int, value: int) -> None:
        """Write a register at a byte offset; carried out before the next read."""
        self._pending.append(lambda session: session.write(offset, value))

    def read(self, offset: int) -> int:
        """Read a register at a byte offset."""
        result = self._run(lambda session: session.read(offset))
        return int(result["reads"][-1]["value"])

    def interrupt(self) -> None:
        """Run until the command in progress has ended."""
        self._run(lambda session: session.wait(self._limit))

    def put(self, address: int, data: Bytes) -> None:
        """Write bytes to the memory; carried out before the next read."""
        copied = data.copy()
        self._pending.append(lambda session: session.load(address, copied))

    def get(self, address: int, size: int) -> Bytes:
        """Read so many bytes of the memory."""
        result = self._run(lambda session: session.dump(address, size, "memory"))
        found: Bytes = np.frombuffer(result["dumps"]["memory"], np.uint8).copy()
        return found

    def fault(self, kind: str, address: int, size: int, response: str) -> None:
        """Answer beats that touch these bytes with an error from here on; see `Session.fault`."""
        self._faults.append((kind, address, size, response))

    def no_faults(self) -> None:
        """Answer without errors from here on."""
        self._faults.clear()

    def reset(self, after: int = 0) -> None:
        """Run for so many cycles, then hold the reset."""
        self._pending.append(lambda session: session.cycles(after))
        self._pending.append(lambda session: session.reset())

    def trace_image(self, image: NDArray[np.uint8]) -> None:
        """Record the monitor's image after every batch or step from here on; `image` is the present one."""
        self._image_bytes, self._start = image.nbytes, image.copy()

    @property
    def traced_images(self) -> Bytes:
        """Recorded images, (batches or steps, bytes)."""
        traces = [one["trace"] for one in self.sessions if one["trace"] is not None]
        return np.concatenate(traces) if traces else np.empty((0, self._image_bytes), np.uint8)

    @property
    def simulated(self) -> int:
        """Cycles simulated so far."""
        return sum(int(one["simulated"]) for one in self.sessions)

    @property
    def seconds(self) -> float:
        """Time that the simulator took for them."""
        return sum(float(one["seconds"]) for one in self.sessions)

    def _run(self, last: Callable[[Session], None]) -> dict[str, Any]:
        """Carry out what is pending and a last step, from the saved state to the next."""
        session = Session(self._program, self._memory.end, self._dram, self._seed)
        if self._state.exists():
            session.restore(self._state)
        if self._start is not None:
            session.shadow(self._start)
            self._start = None
        if self._image_bytes:
            session.trace(image_bytes=self._image_bytes)
        for fault in self._faults:
            session.fault(*fault)
        for step in self._pending:
            step(session)
        last(session)
        session.save(self._state)
        self._pending.clear()
        result = session.run()
        self.sessions.append(result)
        return result
