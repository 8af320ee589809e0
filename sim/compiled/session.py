"""One run of a compiled core: a memory, a list of commands, and their results."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden import processes
from ...golden.errors import UserError

Bytes = NDArray[np.uint8]

SMALLEST_MEMORY = 4096


@dataclass(frozen=True)
class Dram:
    """Behaviour of the memory behind every port.

    Parameters
    ----------
    latency, jitter : int
        Cycles from the acceptance of a read to its first beat, and from a burst's last written beat to the answer: at
        least `latency`, at most `jitter` more, uniformly.
    duty : float
        Fraction of cycles in which a port moves a beat when it has one to move; reads and writes share it.
    outstanding : int
        Bursts a port accepts before the first is answered, reads and writes each, at most 64.
    stall_ar, stall_aw, stall_w, stall_r, stall_b, stall_control : float
        Probability in each cycle that a channel holds back; `stall_control` is the control port's master.
    hazards : bool
        Whether a burst that overlaps another one in flight, which AXI does not order, ends the run.
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

    def __post_init__(self) -> None:
        shares = ("duty", "stall_ar", "stall_aw", "stall_w", "stall_r", "stall_b", "stall_control")
        for name in shares:
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} = {getattr(self, name)} is not in 0 to 1")
        if self.latency < 1 or self.jitter < 0:
            raise UserError(f"latency = {self.latency}, jitter = {self.jitter}: at least 1 and 0 cycles")
        if not 1 <= self.outstanding <= 64:
            raise UserError(f"outstanding = {self.outstanding} is not in 1 to 64")

    @classmethod
    def stressed(cls, share: float = 0.3) -> Dram:
        """Make a memory of short latencies that holds back every channel with this probability."""
        stalls: dict[str, Any] = {f"stall_{name}": share for name in ("ar", "aw", "w", "r", "b", "control")}
        return cls(latency=4, jitter=31, duty=0.8, **stalls)


class Session:
    """One run of a compiled core: methods collect commands, `run` carries them out.

    Parameters
    ----------
    program : Path
        Program from `build.build`.
    memory : array of uint8, or int
        The memory's bytes at the start; or its size, and it is zero. After `restore` a size is the least one.
    dram : Dram
        Behaviour of the memory, the same for all ports.
    seed : int
        Seed of latencies and stalls.
    """

    def __init__(
        self,
        program: Path,
        memory: Bytes | int = SMALLEST_MEMORY,
        dram: Dram | None = None,
        seed: int = 0,
    ) -> None:
        self.program = program
        self.commands: list[str] = []
        self._inputs: dict[str, Bytes] = {}
        self._dumps: dict[str, str] = {}
        self._traced: int | None = None
        self._image = 0
        size = memory if isinstance(memory, int) else memory.size
        if not 0 < size <= 1 << 32:
            raise UserError(f"a memory of {size} bytes: a 32-bit address reaches 1 to {1 << 32}")
        self._settings = [f"set {name} {float(value)}" for name, value in vars(dram or Dram()).items()]
        self._settings += [f"set seed {seed}", f"memory {size}"]
        if not isinstance(memory, int) and memory.any():
            self.load(0, memory)

    def write(self, offset: int, value: int) -> None:
        """Write a register."""
        self._note(f"write {offset} {value & 0xFFFFFFFF}")

    def read(self, offset: int) -> None:
        """Read a register; its value is the next of the result's `reads`."""
        self._note(f"read {offset}")

    def wait(self, cycles: int, strict: bool = True) -> None:
        """Run until the interrupt is high or the core is not busy, for at most so many cycles.

        Reaching them is an error that ends the run, unless `strict` is false.
        """
        self._note(f"{'wait' if strict else 'try_wait'} {cycles}")

    def cycles(self, cycles: int) -> None:
        """Run for so many cycles."""
        self._note(f"cycles {cycles}")

    def reset(self, cycles: int = 16) -> None:
        """Hold the reset for so many cycles; a run that begins with neither `reset` nor `restore` is reset first."""
        self._note(f"reset {cycles}")

    def load(self, address: int, data: NDArray[Any]) -> None:
        """Write an array's bytes to the memory."""
        self._note(f"load {address} {self._input(data)}")

    def dump(self, address: int, count: int, name: str) -> None:
        """Read bytes of the memory as the result's `dumps[name]`."""
        if name in self._dumps:
            raise UserError(f"two dumps are called {name!r}: the second would replace the first")
        self._dumps[name] = f"dump{len(self._dumps)}.bin"
        self._note(f"dump {address} {count} {self._dumps[name]}")

    def shadow(self, image: NDArray[Any]) -> None:
        """Set the image that the monitor shows, as it is now; from here on the monitor's beats update it."""
        self._image = image.nbytes
        self._note(f"shadow {self._input(image)}")

    def trace(self, image_bytes: int | None = None) -> None:
        """Record the monitor's image after each batch or step, as the rows of the result's `trace`.

        Parameters
        ----------
        image_bytes : int, optional
            Size of the image, after `restore` without a `shadow` of this session.
        """
        if self._traced is not None:
            raise UserError("a session has one trace: start another session for the second")
        self._traced = image_bytes or self._image
        if not self._traced:
            raise UserError("a trace needs the monitor's image: call shadow first, or give image_bytes after a restore")
        self._note("trace trace.bin")

    def fault(self, kind: str, address: int, count: int, response: str) -> None:
        """Answer beats that touch these bytes with an error from here on.

        Parameters
        ----------
        kind : "read" or "write"
        address, count : int
        response : "slverr" or "decerr"
        """
        if kind not in ("read", "write") or response not in ("slverr", "decerr"):
            raise UserError(f"fault {kind!r}, {response!r}: 'read' or 'write', 'slverr' or 'decerr'")
        self._note(f"fault {kind} {address} {count} {response}")

    def no_faults(self) -> None:
        """Answer without errors from here on."""
        self._note("no_faults")

    def save(self, path: Path) -> None:
        """Save the state of core, memory and harness, but neither settings nor faults."""
        self._note(f"save {Path(path).resolve()}")

    def restore(self, path: Path) -> None:
        """Continue from a saved state, with settings, faults and trace of this session."""
        self._note(f"restore {Path(path).resolve()}")

    def waves(self, path: Path) -> None:
        """Write waveforms (VCD) from here on; the program must be built with `waves`."""
        self._note(f"waves {Path(path).resolve()}")

    def run(self, check: bool = True, timeout: float | None = None) -> dict[str, Any]:
        """Carry out the commands.

        Parameters
        ----------
        check : bool
            Raise an error that the harness finds; otherwise it is the result's `error`.
        timeout : float, optional
            Seconds after which the run is stopped.

        Returns
        -------
        dict
            ``cycles`` since the start (of the saved run too), ``simulated`` of them here, ``seconds``, ``batches`` (or
            steps, that the monitor showed), ``updates`` (its beats), ``reads`` and ``refused_writes`` (each ``offset``,
            ``value``, ``response``), ``waits`` (each ``cycles``, ``ended``: interrupt, idle or timeout, ``read_beats``
            and ``write_beats``: of each port), ``ports`` (each ``read_beats``, ``write_beats``, ``read_bursts``,
            ``write_bursts``, ``faulty_beats``, ``duty``: beats a cycle in which one could be moved, ``use``: beats a
            cycle), ``error``, ``dumps`` (name to bytes), ``trace``: bytes, a row for each batch or step, or nothing.

        Raises
        ------
        UserError
            If the core breaks a rule of the protocol, does not finish, or a command is impossible.
        """
        with tempfile.TemporaryDirectory(prefix="fabtune-") as scratch:
            folder = Path(scratch)
            for name, data in self._inputs.items():
                data.tofile(folder / name)
            first = next((line for line in self.commands if line.split()[0] != "load"), "")
            commands = [] if first.startswith(("reset", "restore")) else ["reset 16"]
            script = [*self._settings, *commands, *self.commands]
            (folder / "script.txt").write_text("\n".join(script) + "\n", encoding="utf-8")
            result = self._carry_out(folder, timeout)
            if check and result["error"]:
                raise UserError(f"{self.program.name.split('-compiled-')[0]}: {result['error']}")
            files = {name: folder / file for name, file in self._dumps.items()}
            result["dumps"] = {name: np.fromfile(file, np.uint8) for name, file in files.items() if file.exists()}
            result["trace"] = None
            if self._traced and (folder / "trace.bin").exists():
                bytes_written = np.fromfile(folder / "trace.bin", np.uint8)
                rows = bytes_written.size // self._traced
                result["trace"] = bytes_written[: rows * self._traced].reshape(rows, self._traced)
        return result

    def _carry_out(self, folder: Path, timeout: float | None) -> dict[str, Any]:
        try:
            done = processes.run([self.program, "script.txt"], folder, seconds=timeout)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"{self.program.name}: not done after {timeout} s: allow more time or fewer cycles"
            ) from None
        except OSError as problem:
            raise UserError(f"{self.program}: cannot be run: {problem.strerror}: build it again") from None
        # Verilator's library itself ends the program where, for example, a file is no saved state of this model
        try:
            result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            printed = (done.stderr or done.stdout or "").strip().splitlines()
            problems = [line for line in printed if "rror" in line] or printed[-1:] or [f"ended with {done.returncode}"]
            raise UserError(f"{self.program.name}: {problems[0].strip()}") from None
        return result

    def _input(self, data: NDArray[Any]) -> str:
        name = f"input{len(self._inputs)}.bin"
        # a copy: the caller may change the array before the run
        self._inputs[name] = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        return name

    def _note(self, command: str) -> None:
        self.commands.append(command)
