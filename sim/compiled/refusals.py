"""Random commands with random settings, near every limit: the core refuses what golden refuses, and begins the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...boards.host.driver import Core, CoreError
from ...golden.cores.instantft import InstantftSpec
from ...golden.cores.instantft_registers import CORE as TUNING_CORE
from ...golden.cores.refusals import refusal_of
from ...golden.cores.zotrain import ZotrainSpec
from ...golden.cores.zotrain_registers import CORE as TRAINING_CORE
from ...golden.zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES
from .device import SimulatedDevice
from .hostile import wrong_error

LIMIT = 100_000
"""Cycles after which a command hangs; all end at their first access to the memory, if not before."""
_WORD = 1 << 32


def refusal_findings(
    program: Path, spec: InstantftSpec | ZotrainSpec, seed: int, count: int, mutant: int = 0
) -> list[str]:
    """Run commands on a core to whose memory every access is an error, and list what golden does not say.

    Parameters
    ----------
    program : Path
        The core, from `build.build`.
    spec : InstantftSpec or ZotrainSpec
        Its parameters.
    seed : int
    count : int
        Number of commands.
    mutant : int
        See `SimulatedDevice`.
    """
    rng = np.random.default_rng(seed)
    device = SimulatedDevice(program, seed=seed, limit=LIMIT, mutant=mutant)
    registers = TUNING_CORE if isinstance(spec, InstantftSpec) else TRAINING_CORE
    core = Core(registers, device, device, device.interrupt, spec.signature)
    core.allocate(1)  # whatever is in no buffer is an error
    edges = _edges(spec)
    settings = dict.fromkeys(registers.setting_names, 0)
    findings = []
    for _ in range(count):
        # a few settings at a time: with many that are wrong the first reason hides the others
        usual = _usual(spec, rng)
        changed = {name: _draw(edges, rng) for name in settings if rng.random() < 0.12}
        settings |= usual | changed
        command = int(rng.choice([*registers.commands, *registers.commands, 0, len(registers.commands) + 1, 99]))
        if finding := _finding(core, device, spec, command, settings):
            findings.append(f"command {command} with {changed}: {finding}")
        name = str(rng.choice([*settings]))
        if (found := core.read(name)) != settings[name]:
            findings.append(f"{name} is {found:#x}, {settings[name]:#x} was written")
    return findings


def _finding(
    core: Core, device: SimulatedDevice, spec: InstantftSpec | ZotrainSpec, command: int, settings: dict[str, int]
) -> str:
    expected = refusal_of(spec, command, settings)
    before = len(device.bad_responses)
    try:
        core.run(command, **settings)
    except CoreError as error:
        if expected is None:
            return "; ".join(wrong_error(error, device.bad_responses[before:]))
        found = error.code, error.address
        return "" if found == expected else f"{error}, not {expected.error.name} of {expected.value:#x}"
    return f"not refused, {expected.error.name} of {expected.value:#x} expected" if expected else ""


def _usual(spec: InstantftSpec | ZotrainSpec, rng: np.random.Generator) -> dict[str, int]:
    """Draw settings that no core refuses."""
    registers = TUNING_CORE if isinstance(spec, InstantftSpec) else TRAINING_CORE
    values = {name: 16 * int(rng.integers(_WORD // 16)) for name in registers.setting_names}
    if isinstance(spec, InstantftSpec):
        jobs = {"epochs": 1, "samples_per_epoch": 1, "batch": 1, "rate": 1, "mode": 0, "cache_entries": 1}
    else:
        jobs = {"sample_count": 1, "steps": 1, "batch": 1, "position": 0, "eps_shift": 4, "shift": 0}
        jobs |= {"cut": 0, "p1": 1, "p2": 1, "gap": 0, "scalars": 0}
    return values | jobs


def _edges(spec: InstantftSpec | ZotrainSpec) -> list[int]:
    """List values around limits: of these registers, and powers of two."""
    limits = {1, 4, 12, 62, 256, MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES}
    if isinstance(spec, InstantftSpec):
        limits |= {3, spec.batch, spec.cache_entries, (1 << 17) - 1}
    else:
        stages = len(spec.mapping.forward.stages)
        limits |= {stages, spec.source.period}
        limits |= {spec.kept_samples(cut) for cut in range(1, stages)} if spec.cut_rows else set()
    near = {limit + step for limit in limits for step in (-1, 0, 1)} | {1 << bit for bit in range(32)}
    return sorted(value for value in near if 0 <= value < _WORD)


def _draw(edges: list[int], rng: np.random.Generator) -> int:
    return int(rng.choice(edges)) if rng.random() < 0.9 else int(rng.integers(_WORD))
