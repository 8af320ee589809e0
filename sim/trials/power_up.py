"""Trials of what a core makes of the contents that RAMs and registers without reset have at power-up: nothing.

A read of a word that nothing has written since reset or load may happen, but its value must reach no result. So the
same job is run from several contents, and all that leaves the core is compared.
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
"""Seeds of the contents, see `hw.power_up`: random ones, others, and zeros."""


def power_up_findings(program: Path, job: ShortJob, seeds: Sequence[int] = SEEDS) -> list[str]:
    """Run a job from several contents at power-up, and list what is not golden's or depends on them.

    Parameters
    ----------
    program : Path
        The core, from `build.build`.
    job : ShortJob
    seeds : sequence of int
        Of the contents; the first is the one that others are compared with.
    """
    runs, findings = dict[int, dict[str, Any]](), list[str]()
    for seed in seeds:
        device = SimulatedDevice(program, limit=LIMIT, power_up=seed)
        driver = job.driver(device)
        job.load(driver)
        findings += [f"power-up {seed}: {one}" for one in job.differences(driver, device)]
        # all that leaves the core, in its order; each buffer at the end, whoever wrote its bytes
        runs[seed] = {"cycles": device.simulated, "registers": device.values, "memory": device.contents}
    for seed, run in runs.items():
        unequal = [name for name, value in run.items() if value != runs[seeds[0]][name]]
        findings += [f"power-up {seed}: {name} not those of {seeds[0]}" for name in unequal]
    return findings


def unloaded_findings(program: Path, job: ShortJob, seeds: Sequence[int] = SEEDS) -> list[str]:
    """Run a job on a core that nothing was loaded into, load it, run it again, and list what is wrong then.

    The first run computes with whatever the memories hold. It must end, without touching a byte outside of its buffers,
    and leave nothing that a load does not replace.
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
