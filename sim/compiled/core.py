"""A compiled core as the host driver wants it: registers, memory, an interrupt."""

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

from ...golden.errors import UserError
from .simulation import Bytes, Dram, Session

PAGE = 4096


@dataclass
class SimulatedBuffer:
    """Memory of the simulated core: what the host wrote counts from `flush`, what the core wrote from `invalidate`.

    Parameters
    ----------
    device_address : int
    array : array of uint8
    """

    core: SimulatedCore = field(repr=False)
    device_address: int
    array: Bytes

    def flush(self) -> None:
        """Let the core see what the host wrote."""
        self.core.put(self.device_address, self.array)

    def invalidate(self) -> None:
        """Let the host see what the core wrote."""
        self.array[:] = self.core.get(self.device_address, self.array.size)


class SimulatedCore:
    """One core that lives as long as this object; between two calls its state is on disk.

    Parameters
    ----------
    program : Path
        From `compiled.build`, savable.
    memory : int
        Bytes of its memory.
    dram : Dram, optional
        How the memory behaves.
    seed : int
        Of all that is random about it.
    limit : int
        Most cycles that a command may take.

    Attributes
    ----------
    sessions : list of dict
        What each run of the program reported, `Session.run`.
    """

    def __init__(
        self, program: Path, memory: int, dram: Dram | None = None, seed: int = 0, limit: int = 10**10
    ) -> None:
        self._program, self._size, self._dram, self._seed, self._limit = program, memory, dram, seed, limit
        folder = tempfile.mkdtemp(prefix="fabtune-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._state = Path(folder, "state")
        self._pending: list[Callable[[Session], None]] = []
        self._next = PAGE
        self._traced = 0
        self._watched: Bytes | None = None
        self._faults: list[tuple[str, int, int, str]] = []
        self.sessions: list[dict[str, Any]] = []

    def allocate(self, size: int) -> SimulatedBuffer:
        """Get a buffer of so many bytes, on a page of its own."""
        address = self._next
        self._next += -(-size // PAGE) * PAGE
        if self._next > self._size:
            raise UserError(f"the simulated memory of {self._size} bytes is full: give it at least {self._next}")
        return SimulatedBuffer(self, address, np.zeros(size, np.uint8))

    def write(self, offset: int, value: int) -> None:
        """Set a register, before the next read."""
        self._pending.append(lambda session: session.write(offset, value))

    def read(self, offset: int) -> int:
        """A register."""
        result = self._run(lambda session: session.read(offset))
        return int(result["reads"][-1]["value"])

    def interrupt(self) -> None:
        """Run until the command that was started has ended."""
        self._run(lambda session: session.wait(self._limit))

    def put(self, address: int, data: Bytes) -> None:
        """Set memory, before the next read."""
        kept = data.copy()
        self._pending.append(lambda session: session.load(address, kept))

    def get(self, address: int, size: int) -> Bytes:
        """Memory as it is."""
        result = self._run(lambda session: session.dump(address, size, "memory"))
        found: Bytes = np.frombuffer(result["dumps"]["memory"], np.uint8).copy()
        return found

    def fault(self, kind: str, address: int, size: int, response: str) -> None:
        """From here on answer beats there with an error; see `Session.fault`."""
        self._faults.append((kind, address, size, response))

    def no_faults(self) -> None:
        """From here on there are no faults."""
        self._faults.clear()

    def reset(self, after: int = 0) -> None:
        """Run for so many cycles, then hold the reset."""
        self._pending.append(lambda session: session.cycles(after))
        self._pending.append(lambda session: session.reset())

    def watch(self, image: NDArray[np.uint8]) -> None:
        """Keep the adapters' image after every batch from here on; `image` is the one now."""
        self._traced, self._watched = image.nbytes, image.copy()

    @property
    def traces(self) -> Bytes:
        """The adapters' images, a row for each batch since `watch`."""
        rows = [np.asarray(one["trace"]).reshape(-1, self._traced) for one in self.sessions if one["trace"] is not None]
        return np.concatenate(rows) if rows else np.empty((0, self._traced), np.uint8)

    def _run(self, last: Callable[[Session], None]) -> dict[str, Any]:
        session = Session(self._program, self._size, self._dram, self._seed)
        if self._state.exists():
            session.restore(self._state)
        if self._watched is not None:
            session.shadow(self._watched)
            self._watched = None
        if self._traced:
            session.trace(image_bytes=self._traced)
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
