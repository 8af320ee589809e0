"""Commands at a limit, run through the host driver, each with its expected end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path

from ...boards.host.driver import Core, CoreError
from ...golden.cores.core import CoreSpec
from ..compiled.device import SimulatedDevice
from ..compiled.session import Bytes
from .contract import Ending, trials_of
from .refusals import LIMIT, usual_settings

_POLLS = 4
"""A command that has not ended after this number of interrupts hangs: a faulty core may raise them forever."""


def ending_findings(program: Path, spec: CoreSpec, endings: Iterable[Ending], mutant: int = 0) -> list[str]:
    """Run commands on a compiled core and describe unexpected ends.

    The network is the command's images, `Trials.images`, or zeros. It is loaded again if these images change, or after
    an error that removes it from the core. Accesses to the upper half of the memory are decode errors.

    Parameters
    ----------
    program : Path
        Program from `build.build`.
    spec : CoreSpec
    endings : iterable of Ending
        `Trials.entries`, `Trials.wrong_inputs` or others.
    mutant : int
        See `Session`.
    """
    trials, usual = trials_of(spec), usual_settings(spec)
    device = SimulatedDevice(program, limit=LIMIT, mutant=mutant)
    device.open(0, 1 << spec.address - 1)
    core = Core.on(spec, device)
    network = {item.name for item in spec.registers.addresses if {*item.commands} & {*trials.loads}}
    images, held = trials.images(spec), dict[int, Bytes]()
    findings, written, loaded = list[str](), dict[str, int](), False

    def run(command: int, settings: Mapping[str, int], name: str, error: IntEnum | None, value: int) -> None:
        changed = dict(settings.items() - written.items())
        written.update(changed)
        try:
            core.run(command, polls=_POLLS, **changed)
            ended = [0, core.error_address]
        except CoreError as problem:
            ended = [int(problem.code), problem.address]
        if ended != [error or 0, value]:
            findings.append(f"command {command} with {name}: {ended}, not {[int(error or 0), value]}")

    for ending in endings:
        settings = usual | dict(ending.settings)
        for name, image in (images | dict(ending.images)).items():
            if held.get(settings[name]) is not image:
                device.put(settings[name], image)
                held[settings[name]] = image
                loaded = loaded and name not in network
        command = ending.command or trials.command
        for load in () if loaded else trials.loads:
            if load == command:
                break
            run(load, settings, f"{ending.name}, loaded", None, 0)
        run(command, settings, ending.name, ending.error, ending.value)
        loaded = command not in trials.loads and (trials.keeps or not ending.error)
    return findings
