"""Tests against results that depend on the power-up contents of RAMs and of registers without reset.

After a reset or load a core may read words that were never written, but no result may depend on them. The same job runs
from several contents, and everything that the core outputs is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...boards.host.driver import CoreError
from ..compiled.device import SimulatedDevice
from ..compiled.playing import ShortJob
from .hostile import LIMIT

SEEDS = (1, 2, 0)
"""Seeds of the contents, see `hw.power_up`: two random ones, and zeros."""


def power_up_findings(program: Path, job: ShortJob, seeds: Sequence[int] = SEEDS) -> list[str]:
    """Run a job from several power-up contents; describe differences from golden and from the first seed's run.

    Cycles, register reads and all buffers are compared with the first seed's.
    """
    runs, findings = dict[int, dict[str, Any]](), list[str]()
    for seed in seeds:
        device = SimulatedDevice(program, limit=LIMIT, power_up=seed)
        driver = job.driver(device)
        job.load(driver)
        findings += [f"power-up {seed}: {one}" for one in job.differences(driver, device)]
        # registers: every value read, in order; memory: all buffers at the end, including what the host wrote
        runs[seed] = {"cycles": device.simulated, "registers": device.values, "memory": device.contents}
    for seed, run in runs.items():
        unequal = [name for name, value in run.items() if value != runs[seeds[0]][name]]
        findings += [f"power-up {seed}: {name} not those of {seeds[0]}" for name in unequal]
    return findings


def unloaded_findings(program: Path, job: ShortJob, seeds: Sequence[int] = SEEDS) -> list[str]:
    """Run a job on a core without a network, load the network, rerun the job, and describe errors of the second run.

    The first run must access nothing outside the buffers, and the load must undo all effects of this run.
    """
    findings = []
    for seed in seeds:
        device = SimulatedDevice(program, limit=LIMIT, power_up=seed)
        driver = job.driver(device)
        try:
            job.differences(driver, device)
        except CoreError as error:
            findings.append(f"power-up {seed}: before a load {error}")
        job.load(driver)
        findings += [f"power-up {seed}: {one}" for one in job.differences(driver, device)]
    return findings
