"""Stress test of a compiled core on a fault-injecting bus: a short job is right or ends in the right error, and the job
after it is right.

The memory answers late and in any order between channels and ports, stalls channels for long, starves ports, and can
give an error on any beat. Buffers have random addresses; an access outside a buffer is an error. Resets come at any
time; a soft reset waits for outstanding bursts. A seed determines all of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...boards.host.driver import CoreError
from ...golden.axi.register_map import SIGNATURE
from ...golden.cores.shell import SHELL
from ...golden.errors import UserError
from ..compiled.device import DeviceResetError, SimulatedDevice
from ..compiled.playing import ShortJob
from ..compiled.session import Dram
from .contract import trials_of

LIMIT = 50_000_000
"""Limit of a command in cycles."""
_SAME_TIME = 2
"""If two error responses are at most this number of cycles apart, the core may see either first."""
_SOON = 40
"""Number of cycles from a command's start in which the core checks the settings."""
Adversity = Literal["none", "fault", "region", "reset", "soft reset"]


@dataclass(frozen=True)
class CalmRun:
    """Figures of a job on a memory without faults, from which faults are drawn.

    Parameters
    ----------
    buffers : tuple of int
        Sizes in bytes.
    reads, writes : tuple of int
        Number of beats at each port.
    commands : int
        Number of commands, loads of the network included.
    cycles : int
        Clock cycles of all commands.
    simulated : int
        Clock cycles of the run, register accesses included.
    values : tuple of int
        All values read from registers, cycle counts included.
    shown : tuple of int
        Counts of the monitor: beats, then active cycles of each part, then of each operation.
    contents : tuple of bytes
        Each buffer at the end.
    """

    buffers: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    commands: int
    cycles: int
    simulated: int
    values: tuple[int, ...]
    shown: tuple[int, ...]
    contents: tuple[bytes, ...]


@dataclass(frozen=True)
class Trial:
    """Result of a stress test.

    Parameters
    ----------
    seed : int
    adversity : "none", "fault", "region", "reset" or "soft reset"
        "fault" is an error on one beat, "region" an error on all beats of a region.
    ended : str
        End of the first job: ``right``, an error's name, ``reset`` or ``soft reset``.
    findings : list of str
        Errors found in the core's behaviour; empty if all is right.
    cycles : int
        Clock cycles simulated.
    """

    seed: int
    adversity: Adversity
    ended: str
    findings: list[str]
    cycles: int


def hostile_dram(rng: np.random.Generator) -> Dram:
    """Draw a memory's behaviour."""
    latency = int(rng.choice([1, 4, 30, 100, 300, 1000]))
    stalls: dict[str, Any] = {
        f"stall_{name}": float(rng.choice([0, 0, 0.3, 0.7, 0.95])) for name in ("ar", "aw", "w", "r", "b", "control")
    }
    return Dram(
        latency=latency,
        jitter=int(rng.choice([0, 7, latency, 1000 - latency])),
        duty=float(rng.choice([1, 0.7, 0.3, 0.1])),
        outstanding=int(rng.choice([1, 2, 3, 8, 64])),
        **stalls,
        freeze=float(rng.choice([0, 0, 0.0005, 0.005])),
        freeze_cycles=int(rng.choice([10, 100, 1000])),
        greedy=bool(rng.integers(2)),
        aw_order=rng.choice(np.array(["any", "with_w", "behind_w"])).item(),
        late_answers=bool(rng.integers(2)),
        probe=bool(rng.integers(2)),
    )


def calm_run(program: Path, job: ShortJob) -> CalmRun:
    """Run a job on a memory without faults; a difference from golden is a `UserError`."""
    device = SimulatedDevice(program, limit=LIMIT)
    before, wrong = _run(device, job)
    if wrong:
        raise UserError(f"{program.name}: not as golden: {', '.join(wrong)}")
    ports = device.results[-1]["ports"]
    return CalmRun(
        buffers=tuple(buffer.array.size for buffer in device.buffers),
        reads=tuple(port["read_beats"] for port in ports),
        writes=tuple(port["write_beats"] for port in ports),
        commands=device.commands,
        cycles=device.simulated - before,
        simulated=device.simulated,
        values=device.values,
        shown=_shown(device),
        contents=device.contents,
    )


def calm_difference(program: Path, job: ShortJob, calm: CalmRun, limit: int = LIMIT, mutant: int = 0) -> str:
    """Run a job as `calm_run` does and describe the first different figure; empty if all are equal.

    `limit` is in cycles of a command, `mutant` as in `SimulatedDevice`. A broken bus rule or a hang is a
    `UserError`.
    """
    device = SimulatedDevice(program, limit=limit, mutant=mutant)
    _, wrong = _run(device, job)
    if wrong:
        return ", ".join(wrong)
    if (device.simulated, device.values) != (calm.simulated, calm.values):
        return f"{device.simulated} cycles, not {calm.simulated}"
    both = zip_longest(_shown(device), calm.shown)
    for number, (shown, right) in enumerate(both):
        if shown != right:
            return f"the monitor shows {shown}, not {right}, as count {number}"
    held = enumerate(zip(device.contents, calm.contents, strict=True))
    return next((f"other bytes in buffer {number}" for number, (own, right) in held if own != right), "")


def _run(device: SimulatedDevice, job: ShortJob) -> tuple[int, list[str]]:
    """Load the network and run the whole job; return the cycles before the job, and all differences from golden."""
    driver = job.driver(device)
    before = device.simulated
    job.load(driver)
    return before, job.differences(driver, device)


def _shown(device: SimulatedDevice) -> tuple[int, ...]:
    parts = (sum(cycles) for cycles in zip(*(wait["parts"] for wait in device.waits), strict=True))
    return device.results[-1]["updates"], *parts, *device.operations


def run_trial(
    program: Path,
    job: ShortJob,
    calm: CalmRun,
    seed: int,
    dram: Dram | None = None,
    limit: int = LIMIT,
    mutant: int = 0,
) -> Trial:
    """Run a job on a fault-injecting bus, then again without faults, and list errors.

    Parameters
    ----------
    program : Path
        Program from `build.build`.
    job : ShortJob
    calm : CalmRun
        From `calm_run` with the same program and job.
    seed : int
        Seed of all random choices.
    dram : Dram, optional
        Behaviour of the memory, by default drawn.
    limit : int
        Limit of a command in cycles.
    mutant : int
        See `SimulatedDevice`.
    """
    rng = np.random.default_rng(seed)
    drawn = hostile_dram(rng)
    device = SimulatedDevice(program, dram or drawn, seed, limit, scattered=True, mutant=mutant)
    adversity: Adversity = rng.choice(np.array(["none", "fault", "fault", "region", "reset", "soft reset"])).item()
    driver = job.driver(device)
    _prepare(device, adversity, calm, rng)
    findings: list[str] = []
    ended, loaded = "right", False
    try:
        job.load(driver)
        loaded = True
        findings += job.differences(driver, device)
        if device.bad_responses:
            findings.append(f"{device.bad_responses[0]} but no error")
    except CoreError as error:
        ended, loaded = error.name, loaded and trials_of(job.spec).keeps
        findings += wrong_error(error, device.bad_responses)
    except DeviceResetError:
        ended, loaded = adversity, False
        if adversity == "soft reset":
            findings += not_reset(device)
    device.no_faults()
    device.no_reset()
    if not loaded or rng.integers(2):
        job.load(driver)
    try:
        findings += [f"then {one}" for one in job.differences(driver, device)]
    except CoreError as error:
        findings.append(f"then {error}")
    return Trial(seed, adversity, ended, findings, device.simulated)


def _prepare(device: SimulatedDevice, adversity: str, calm: CalmRun, rng: np.random.Generator) -> None:
    """Draw the fault or reset and give it to the device."""
    kind = str(rng.choice(["read", "write"]))
    response = str(rng.choice(["slverr", "decerr"]))
    if adversity == "fault":
        beats = calm.reads if kind == "read" else calm.writes
        port = int(rng.choice([number for number, count in enumerate(beats) if count]))
        device.fault_in(kind, port, int(rng.integers(beats[port])) + 1, response)
    elif adversity == "region":
        number = int(rng.integers(len(calm.buffers)))
        offset = int(rng.integers(calm.buffers[number]))
        device.fault_of_buffer(number, kind, offset, int(rng.choice([1, 16, 256, 4096])), response)
    elif adversity == "reset":
        commands = int(rng.integers(calm.commands))
        device.reset_in(commands, int(rng.integers(2 * calm.cycles // calm.commands)))
    elif adversity == "soft reset":
        # also while a command is checked, after its end, and during the first reset
        commands, most = int(rng.integers(calm.commands)), 2 * calm.cycles // calm.commands
        distances = (0, int(rng.integers(_SOON)))[: int(rng.integers(1, 3))]
        device.reset_in(commands, int(rng.integers(_SOON if rng.integers(4) == 0 else most)), distances)


def not_reset(device: SimulatedDevice) -> list[str]:
    """Describe all shell registers that do not have their reset values."""
    kept = [item for item in SHELL if item.name != SIGNATURE]
    found = [(item, device.read(item.offset)) for item in kept]
    return [f"{item.name} is {value:#x} after a soft reset" for item, value in found if value != item.reset]


def wrong_error(error: CoreError, responses: list[dict[str, Any]]) -> list[str]:
    """Compare an error with the core's first error responses, see `bad_responses` in `Session.run`.

    Returns a description; empty if kind, response and burst address are right.
    """
    if not responses:
        return [f"{error} without a bad response"]
    first = [one for one in responses if one["cycle"] <= responses[0]["cycle"] + _SAME_TIME]
    found = error.name, error.address
    expected = [(f"{one['kind']}_{one['response']}", one["address"]) for one in first]
    return [] if found in expected else [f"{error}, not {expected}"]
