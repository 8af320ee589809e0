"""Session of a compiled core: a memory, lists of commands, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...golden.errors import UserError
from ...hw.power_up import power_up_argument, power_up_seed
from .process import Simulator

Bytes = NDArray[np.uint8]

LARGEST_MEMORY = 1 << 40
"""Largest memory in bytes."""
SMALLEST_MEMORY = 4096
ALL_BYTES = 0b1111
"""Write strobes for a whole register."""
_AW_ORDERS = ("any", "with_w", "behind_w")
"""Values of `Dram.aw_order`; the index is the harness's code."""


@dataclass(frozen=True)
class Dram:
    """Behaviour of the memory behind every port.

    Parameters
    ----------
    latency, jitter : int
        Cycles from the acceptance of a read to its first beat, and from a burst's last written beat to its response:
        `latency` plus 0 to `jitter`, uniformly distributed.
    duty : float
        Fraction of the cycles with a pending beat in which a port moves the beat; reads and writes share the port.
    outstanding : int
        Largest number of outstanding bursts of a port, for reads and for writes; at most 64.
    stall_ar, stall_aw, stall_w, stall_r, stall_b, stall_control : float
        Probability in each cycle that a channel stalls; `stall_control` is for the master of the control port.
    hazards : bool
        End the run with an error if a burst overlaps another burst in flight: AXI does not order the two.
    freeze : float
        Probability in each cycle that a channel of a port starts a pause.
    freeze_cycles : int
        Longest pause; lengths are uniform between 1 and this.
    greedy : bool
        The reads or the writes of one port keep the memory as long as they have pending beats; all others starve.
    aw_order : "any", "with_w" or "behind_w"
        A port accepts a write address at any time, once W is valid, or after the burst's last W. AXI allows all three.
    late_answers : bool
        Read data and responses continue to arrive during a reset, until it ends.
    probe : bool
        While the master of the control port waits, it reads registers and unmapped addresses.
    noise : bool
        While data and responses are not valid, they are random; if false, they keep their values.
    """

    latency: int = 100
    jitter: int = 31
    duty: float = 0.7
    outstanding: int = 16
    stall_ar: float = 0.0
    stall_aw: float = 0.0
    stall_w: float = 0.0
    stall_r: float = 0.0
    stall_b: float = 0.0
    stall_control: float = 0.0
    hazards: bool = True
    freeze: float = 0.0
    freeze_cycles: int = 1
    greedy: bool = False
    aw_order: Literal["any", "with_w", "behind_w"] = "any"
    late_answers: bool = False
    probe: bool = False
    noise: bool = True

    def __post_init__(self) -> None:
        shares = ("duty", "stall_ar", "stall_aw", "stall_w", "stall_r", "stall_b", "stall_control", "freeze")
        for name in shares:
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} = {getattr(self, name)} is not in 0 to 1")
        if self.latency < 1 or self.jitter < 0:
            raise UserError(f"latency = {self.latency}, jitter = {self.jitter}: at least 1 and 0 cycles")
        if not 1 <= self.outstanding <= 64:
            raise UserError(f"outstanding = {self.outstanding} is not in 1 to 64")
        if self.freeze_cycles < 1:
            raise UserError(f"freeze_cycles = {self.freeze_cycles}: a pause has at least 1 cycle")
        if self.aw_order not in _AW_ORDERS:
            raise UserError(f"aw_order = {self.aw_order!r} is none of {', '.join(_AW_ORDERS)}")

    @classmethod
    def stressed(cls, share: float = 0.3) -> Dram:
        """Make a memory with short latencies and this probability of a stall on each channel."""
        stalls: dict[str, Any] = {f"stall_{name}": share for name in ("ar", "aw", "w", "r", "b", "control")}
        return cls(latency=4, jitter=31, duty=0.8, **stalls)

    def lines(self) -> list[str]:
        """Lines for the harness."""
        values = vars(self) | {"aw_order": _AW_ORDERS.index(self.aw_order)}
        return [f"set {name} {float(value)}" for name, value in values.items()]


class Session:
    """A running compiled core: methods queue commands; `run` executes the queue, from the state of the last run.

    The core is a process and ends with the session or the parent process.

    Parameters
    ----------
    program : Path
        Program from `build.build`.
    memory : array of uint8, or int
        Initial bytes of the memory, or the size of a zeroed memory. Untouched pages take no space.
    dram : Dram
    seed : int
        Seed of latencies and stalls.
    mutant : int
        Number of the active fault in a core with faults; 0: none.
    power_up : int, optional
        Seed of the initial contents of RAMs and of registers without reset, see `hw.power_up`; 0: zeros. The default
        follows from `seed` and is not 0.
    """

    def __init__(
        self,
        program: Path,
        memory: Bytes | int = SMALLEST_MEMORY,
        dram: Dram | None = None,
        seed: int = 0,
        mutant: int = 0,
        power_up: int | None = None,
    ) -> None:
        self.program = program
        self.power_up = power_up_seed(seed) if power_up is None else power_up
        self.commands: list[str] = []
        self._simulator: Simulator | None = None
        self._inputs: dict[str, Bytes] = {}
        self._dumps: dict[str, str] = {}
        self._image = self._rows = 0
        self._traced = False
        size = memory if isinstance(memory, int) else memory.size
        if not 0 < size <= LARGEST_MEMORY:
            raise UserError(f"a memory of {size} bytes: give 1 to {LARGEST_MEMORY}")
        self._settings = [*(dram or Dram()).lines(), f"set seed {seed}", f"memory {size}"]
        if mutant:
            self._settings.append(f"set mutant {mutant}")
        if not isinstance(memory, int) and memory.any():
            self.load(0, memory)

    def region(self, address: int, count: int) -> None:
        """Let the core access these bytes. Once there is a region, beats outside all regions are decode errors."""
        self._note(f"region {address} {count}")

    def write(self, offset: int, value: int, strobes: int = ALL_BYTES) -> None:
        """Write a register; bit 0 of `strobes` enables the lowest byte."""
        self._note(f"write {offset} {value & 0xFFFFFFFF} {strobes}")

    def read(self, offset: int) -> None:
        """Read a register into the next item of the result's `reads`."""
        self._note(f"read {offset}")

    def wait(self, cycles: int, strict: bool = True) -> None:
        """Run until the interrupt is high or the core is idle, for at most `cycles`.

        Reaching the limit ends the session with an error, unless `strict` is false.
        """
        self._note(f"{'wait' if strict else 'try_wait'} {cycles}")

    def cycles(self, cycles: int) -> None:
        """Run for this number of cycles."""
        self._note(f"cycles {cycles}")

    def reset(self, cycles: int = 16) -> None:
        """Hold the reset for this number of cycles; a session resets first in any case."""
        self._note(f"reset {cycles}")

    def load(self, address: int, data: NDArray[Any]) -> None:
        """Write an array's bytes to the memory."""
        self._note(f"load {address} {self._input(data)}")

    def dump(self, address: int, count: int, name: str) -> None:
        """Read bytes of the memory into the next result's `dumps[name]`."""
        if name in self._dumps:
            raise UserError(f"two dumps are called {name!r}: the second would replace the first")
        self._dumps[name] = f"dump{len(self._dumps)}.bin"
        self._note(f"dump {address} {count} {self._dumps[name]}")

    def shadow(self, image: NDArray[Any]) -> None:
        """Set the image that the monitor's beats update from here on."""
        if self._traced and image.nbytes != self._image:
            raise UserError(f"an image of {image.nbytes} bytes: those of the trace have {self._image}")
        self._image = image.nbytes
        self._note(f"shadow {self._input(image)}")

    def trace(self) -> None:
        """Record the monitor's image after each batch or step from here on, as rows of a result's `trace`."""
        if self._traced:
            raise UserError("a session has one trace: start another session for the second")
        if not self._image:
            raise UserError("a trace needs the monitor's image: call shadow first")
        self._traced = True
        self._note("trace trace.bin")

    def fault(self, kind: str, address: int, count: int, response: str) -> None:
        """Answer beats within these bytes with an error from here on: ``read`` or ``write``, ``slverr`` or
        ``decerr``.
        """
        _check_fault(kind, response)
        self._note(f"fault {kind} {address} {count} {response}")

    def fault_in(self, kind: str, port: int, beats: int, response: str) -> None:
        """Answer the beat with this number, from 1, of a port with an error; see `fault`."""
        _check_fault(kind, response)
        self._note(f"fault_in {kind} {port} {beats} {response}")

    def no_faults(self) -> None:
        """Clear all faults."""
        self._note("no_faults")

    def waves(self, path: Path, period_ps: int = 10) -> None:
        """Write all nets from here on, until `end_waves` or the session's end; once in a session.

        Parameters
        ----------
        path : Path
            VCD or SAIF, as the program was built. In SAIF a net's first toggle may be the initial value: Verilator
            counts from an assumed 0.
        period_ps : int
            Clock period in ps, an even number.
        """
        self._note(f"waves {period_ps} {Path(path).resolve()}")

    def end_waves(self) -> None:
        """Close the file of `waves`."""
        self._note("end_waves")

    def run(self, check: bool = True, timeout: float | None = None) -> dict[str, Any]:
        """Execute the commands since the last run.

        Parameters
        ----------
        check : bool
            Raise an error of the harness; otherwise the result has `error`. The session ends.
        timeout : float, optional
            Time limit of the session in seconds.

        Returns
        -------
        dict
            ``cycles`` since the start, ``simulated`` cycles and ``seconds`` of this run, ``batches`` (or steps shown by
            the monitor since the start), ``updates`` (its beats), ``operations`` (cycles of this run by number of the
            active operation), ``reads`` and ``refused_writes`` (each ``offset``, ``value``, ``response``), ``waits``
            (each ``cycles``, ``ended``: interrupt, idle or timeout, for each port ``read_beats``, ``write_beats`` and
            ``due``: cycles with a pending beat, ``parts``: active cycles of each part), ``ports`` (since the start,
            each ``read_beats``, ``write_beats``, ``read_bursts``, ``write_bursts``, ``faulty_beats``, ``duty``: beats a
            cycle with a pending beat, ``use``: beats a cycle, ``most_reads``, ``most_writes``: outstanding bursts,
            ``longest_read``, ``longest_write``: beats of a burst), ``bad_responses`` (each ``cycle``, ``port``,
            ``kind``, ``response``, ``address`` of the burst, in the order in which the core received them), ``error``,
            ``dumps`` (name to bytes), ``trace``: bytes, a row for each batch or step of this run, or None.

        Raises
        ------
        UserError
            If the core breaks a rule of the protocol or does not finish, or a command is impossible.
        """
        if self._simulator is None:
            first = next((line for line in self.commands if line.split()[0] != "load"), "")
            self.commands = [*self._settings, *([] if first.startswith("reset") else ["reset 16"]), *self.commands]
            self._simulator = Simulator(self.program, [power_up_argument(self.power_up)])
        folder = self._simulator.folder
        for name, data in self._inputs.items():
            data.tofile(folder / name)
        result = self._simulator.carry_out(self.commands, timeout)
        for name in self._inputs:
            (folder / name).unlink()
        if check and result["error"]:
            raise UserError(f"{self._simulator.name}: {result['error']}")
        files = {name: folder / file for name, file in self._dumps.items()}
        result["dumps"] = {name: np.fromfile(file, np.uint8) for name, file in files.items() if file.exists()}
        result["trace"] = self._new_rows(folder / "trace.bin") if self._traced else None
        self.commands, self._inputs, self._dumps = [], {}, {}
        return result

    def _new_rows(self, file: Path) -> Bytes:
        found = np.fromfile(file, np.uint8, offset=self._rows * self._image) if file.exists() else np.empty(0, np.uint8)
        rows = found.size // self._image
        self._rows += rows
        return found[: rows * self._image].reshape(rows, self._image)

    def _input(self, data: NDArray[Any]) -> str:
        name = f"input{len(self._inputs)}.bin"
        # a copy: the caller may change the array before the run
        self._inputs[name] = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        return name

    def _note(self, command: str) -> None:
        self.commands.append(command)


def _check_fault(kind: str, response: str) -> None:
    if kind not in ("read", "write") or response not in ("slverr", "decerr"):
        raise UserError(f"fault {kind!r}, {response!r}: 'read' or 'write', 'slverr' or 'decerr'")
