"""The compiled simulator: a whole job on an emitted core, with memories behind its AXI ports and no Python in the loop.

`build` makes a program of a core's Verilog, harness.cpp and dram.h; a `Session` is one run of it: a memory, a
list of commands, and what came of them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden.cache import cache_folder
from ...golden.errors import UserError
from ..simulator import environment, find, require

Bytes = NDArray[np.uint8]

HARNESS = tuple(Path(__file__).with_name(name) for name in ("harness.cpp", "dram.h"))

_VERILATOR_FLAGS = (
    "--cc", "--exe", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "-Wno-fatal", "-Wno-style",
    "--prefix", "Vtop",
)  # fmt: skip
# Of a core's long functions -O1 makes code as fast as -O2 and -O3, which follow aliases for minutes: g++ 12 took
# 100 s for one file of 0.7 MB at -O3, 3 s at -O1. No -march=native: it gains nothing, and a cache may be carried away.
_MAKE_FLAGS = ("OPT_FAST=-O1", "OPT_GLOBAL=-O2")

SMALLEST_MEMORY = 4096


def build(verilog: str, top: str, ports: int, savable: bool = True, waves: bool = False) -> Path:
    """Compile a core with the harness.

    Parameters
    ----------
    verilog : str
        The core, with the ports of the fine-tuning core: `s_axi_control`, `m_axi_gmem0` and so on, the monitor, whose
        data are one beat or several, with as many bits of `monitor_valid`; `monitor_beat` is the first one's number.
    top : str
        Name of its top module.
    ports : int
        How many `m_axi_gmem` ports it has, 1 or 2.
    savable : bool
        Whether a session can save and restore its state.
    waves : bool
        Whether a session can write waveforms; slower.

    Returns
    -------
    Path
        The program, kept by the contents of all that went into it.

    Raises
    ------
    UserError
        If a tool is missing, or the Verilog does not compile.
    """
    if ports not in (1, 2):
        raise UserError(f"ports = {ports}: a core has 1 or 2 memory ports")
    require("verilator")
    compiler = shutil.which("g++") or shutil.which("c++")
    if not compiler or not shutil.which("make"):
        raise UserError("the compiled simulator needs g++ and make: apt install g++ make")
    flags = [*_VERILATOR_FLAGS, *(["--savable"] if savable else []), *(["--trace-vcd"] if waves else [])]
    defines = [f"-DPORTS={ports}", *(["-DSAVABLE"] if savable else []), *(["-DWAVES"] if waves else [])]
    harness = {path.name: path.read_text(encoding="utf-8") for path in HARNESS}
    tools = [find("verilator"), _verilator_version(), compiler, platform.machine(), flags, defines, _MAKE_FLAGS, top]
    key = hashlib.sha256(f"{tools}\n{harness}\n{verilog}".encode()).hexdigest()[:20]
    target = cache_folder() / "sim" / f"{top}-compiled-{key}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fabtune-") as scratch:
        folder = Path(scratch, "build")
        folder.mkdir()
        (folder / f"{top}.v").write_text(verilog, encoding="utf-8")
        for name, text in harness.items():
            (folder / name).write_text(text, encoding="utf-8")
        env = environment("verilator", Path(scratch))
        program = "verilator"  # the link that `environment` makes, or the user's own
        sources = [f"{top}.v", "harness.cpp"]
        _step([program, *flags, "-CFLAGS", " ".join(defines), "--top-module", top, "--Mdir", ".", *sources],
              folder, env, f"verilator could not read {top}")  # fmt: skip
        variables = [*_MAKE_FLAGS, f"CXX={compiler}", f"LINK={compiler}", f"PYTHON3={sys.executable}"]
        _step(["make", "-j", "2", "-f", "Vtop.mk", *variables, "Vtop"], folder, env, f"{top} could not be compiled")
        # next to the target, then renamed: another process sees all of it or nothing
        with tempfile.TemporaryDirectory(dir=target.parent) as beside:
            made = Path(beside, "program")
            shutil.copy2(folder / "Vtop", made)
            made.replace(target)
    return target


def _step(command: list[str], folder: Path, env: dict[str, str], refusal: str) -> None:
    # by its path: a child's PATH does not count where the child itself is looked for
    command = [shutil.which(command[0], path=env["PATH"]) or command[0], *command[1:]]
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if "rror" in line] or done.stdout.splitlines()[-1:]
        raise UserError(f"{refusal}: {said[0].strip() if said else 'no message'}")


def _verilator_version() -> str:
    try:
        return version("verilator")
    except PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class Dram:
    """How the memory behind every port behaves.

    Parameters
    ----------
    latency, jitter : int
        Cycles from the acceptance of a read to its first beat, and from a burst's last written beat to the answer: at
        least `latency`, at most `jitter` more, uniformly.
    duty : float
        Share of cycles in which a port moves a beat when it has one to move; reads and writes share it.
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
        """Short latencies, and every channel held back at random."""
        stalls: dict[str, Any] = {f"stall_{name}": share for name in ("ar", "aw", "w", "r", "b", "control")}
        return cls(latency=4, jitter=31, duty=0.8, **stalls)


class Session:
    """One run of a compiled core: methods note commands, `run` carries them out.

    Parameters
    ----------
    program : Path
        From `build`.
    memory : array of uint8, or int
        The memory's bytes at the start, or its size: zeros.
    dram : Dram
        The memory's behaviour, the same for all ports.
    seed : int
        Of all that is random in the harness.
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
        """Run until the interrupt is high or the core is not busy; strictly, ending the run after so many cycles."""
        self._note(f"{'wait' if strict else 'try_wait'} {cycles}")

    def cycles(self, cycles: int) -> None:
        """Run for so many cycles."""
        self._note(f"cycles {cycles}")

    def reset(self, cycles: int = 16) -> None:
        """Hold the reset for so many cycles. A session that starts otherwise is reset first."""
        self._note(f"reset {cycles}")

    def load(self, address: int, data: NDArray[Any]) -> None:
        """Put an array's bytes into the memory."""
        self._note(f"load {address} {self._input(data)}")

    def dump(self, address: int, count: int, name: str) -> None:
        """Keep bytes of the memory as the result's `dumps[name]`."""
        if name in self._dumps:
            raise UserError(f"two dumps are called {name!r}: the second would replace the first")
        self._dumps[name] = f"dump{len(self._dumps)}.bin"
        self._note(f"dump {address} {count} {self._dumps[name]}")

    def shadow(self, image: NDArray[Any]) -> None:
        """Give the adapters' image as it is now; from here on the monitor's beats change it."""
        self._image = image.nbytes
        self._note(f"shadow {self._input(image)}")

    def trace(self, every: int = 1, image_bytes: int | None = None) -> None:
        """Keep the adapters' image after each batch, or each so many, as the rows of the result's `trace`.

        Parameters
        ----------
        every : int
        image_bytes : int, optional
            Size of the image, after `restore` without a `shadow` of this session.
        """
        if self._traced is not None:
            raise UserError("a session has one trace: start another session for the second")
        self._traced = image_bytes or self._image
        if not self._traced:
            raise UserError("a trace needs the adapters' image: call shadow first, or give image_bytes after a restore")
        self._note(f"trace {every} trace.bin")

    def fault(self, kind: str, address: int, count: int, response: str) -> None:
        """From here on answer beats that touch these bytes with an error.

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
        """From here on there are no faults."""
        self._note("no_faults")

    def save(self, path: Path) -> None:
        """Save all state: the core's, the memory's and the harness's, settings and faults excepted."""
        self._note(f"save {Path(path).resolve()}")

    def restore(self, path: Path) -> None:
        """Go on from a saved state. Settings, faults and the trace are this session's."""
        self._note(f"restore {Path(path).resolve()}")

    def waves(self, path: Path) -> None:
        """Write waveforms (VCD) from here on; the program must be built with `waves`."""
        self._note(f"waves {Path(path).resolve()}")

    def run(self, check: bool = True, timeout: float | None = None) -> dict[str, Any]:
        """Carry out the commands.

        Parameters
        ----------
        check : bool
            Whether an error that the harness found is raised; else it is the result's `error`.
        timeout : float, optional
            Seconds after which the run is given up.

        Returns
        -------
        dict
            ``cycles`` since the start (of the saved run too), ``simulated`` of them here, ``seconds``, ``batches``,
            ``updates`` (beats on the monitor), ``reads`` and ``refused_writes`` (each ``offset``, ``value``,
            ``response``), ``waits`` (each ``cycles``, ``ended``: interrupt, idle or timeout, ``read_beats`` and
            ``write_beats``: of each port), ``ports`` (each ``read_beats``, ``write_beats``, ``read_bursts``,
            ``write_bursts``, ``faulty_beats``, ``duty``: beats a cycle in which one could be moved, ``use``: beats a
            cycle), ``error``, ``dumps`` (name to bytes), ``trace``: bytes, a row for each batch, or nothing.

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
            done = subprocess.run(
                [self.program, "script.txt"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise UserError(
                f"{self.program.name}: not done after {timeout} s: allow more time or fewer cycles"
            ) from None
        except OSError as problem:
            raise UserError(f"{self.program}: cannot be run: {problem.strerror}: build it again") from None
        # a file that is no saved state of this model, for one, ends the program from inside Verilator's library
        try:
            result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            said = (done.stderr or done.stdout or "").strip().splitlines()
            problems = [line for line in said if "rror" in line] or said[-1:] or [f"ended with {done.returncode}"]
            raise UserError(f"{self.program.name}: {problems[0].strip()}") from None
        return result

    def _input(self, data: NDArray[Any]) -> str:
        name = f"input{len(self._inputs)}.bin"
        # a copy: the caller may change the array before the run
        self._inputs[name] = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        return name

    def _note(self, command: str) -> None:
        self.commands.append(command)
