"""Random commands and settings near every limit: the core must refuse what golden refuses, and start the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.utils import exact_log2

from ...golden.axi.axi_registers import enabled_bits
from ...golden.axi.bus import BEAT
from ...golden.cores.core import CoreSpec
from ...golden.cores.shell import CoreRegisters
from ..compiled.session import ALL_BYTES, LARGEST_MEMORY, SMALLEST_MEMORY, Session
from .contract import trials_of

LIMIT = 100_000
"""Limit of a command in cycles; every command ends at its first access to the memory, or before."""
RANDOM_COMMANDS = 300
_AT_ONCE = 100
"""Number of commands in one run of the simulator, which can store 100,000 error responses."""
_WORD = 1 << 32
_FIRST_ADDRESS = 0x0800_0000
"""Lowest address of a buffer; no other usual setting is as large."""
_LIMITS = {1, 4, 12, 16, 62, 63, 64, 256}
"""Limits of settings that every core has."""
_STATUS, _ERROR = "status", ("error_address", "error_address_high")


@dataclass(frozen=True)
class _Attempt:
    """Command, its written bytes, all settings, the changed settings, and a register to read back."""

    written: int
    strobes: int
    settings: dict[str, int]
    changed: dict[str, int]
    register: str

    @property
    def command(self) -> int:
        """Command as the core receives it: unwritten bytes are 0."""
        return self.written & enabled_bits(self.strobes)


def refusal_findings(program: Path, spec: CoreSpec, seed: int, mutant: int = 0) -> Iterator[str]:
    """Run commands on a core without accessible memory and describe differences from golden.

    Only the images that every job needs are readable. They are loaded first, and again after each accepted command, as
    it ends in an error; a refusal keeps the network.

    The commands cover each alignment bit and high bit of each address; images that end at, before and beyond the
    address bits; settings from `Trials.together`; every setting with every bit and with values around every limit;
    `RANDOM_COMMANDS` with several changed settings; unknown commands; partial writes of the command register.

    Parameters
    ----------
    program : Path
        Program from `build.build`.
    spec : CoreSpec
    seed : int
    mutant : int
        See `Session`.
    """
    attempts, trials = _attempts(spec, np.random.default_rng(seed)), trials_of(spec)
    core, usual, loads = spec.registers, usual_settings(spec), trials.loads
    read = {item.name for item in core.addresses if {*item.commands} & {*loads}}
    images = {usual[name]: image for name, image in trials.images(spec).items() if name in read}
    session = Session(program, LARGEST_MEMORY if images else SMALLEST_MEMORY, seed=seed, mutant=mutant)
    session.region(0, 1)  # whatever is in no region is an error
    for address, image in images.items():
        session.region(address, image.size)
        session.load(address, image)
    written: dict[str, int] = {}
    there = not images
    for first in range(0, len(attempts), _AT_ONCE):
        some = attempts[first : first + _AT_ONCE]
        for one in some:
            for load in () if there else loads:
                write_settings(session, core, usual, written)
                session.write(core.map["command"].offset, int(load))
                session.wait(LIMIT)
            there = not images or spec.refusal(one.command, one.settings) is not None
            write_settings(session, core, one.settings, written)
            session.write(core.map["command"].offset, one.written, one.strobes)
            session.wait(LIMIT)
            for name in (_STATUS, *_ERROR, one.register):
                session.read(core.map[name].offset)
        yield from _findings(spec, some, session.run())


def _findings(spec: CoreSpec, attempts: Sequence[_Attempt], result: Mapping[str, Any]) -> Iterator[str]:
    values = iter(access["value"] for access in result["reads"])
    bad = {(f"{one['kind']}_{one['response']}".upper(), one["address"]) for one in result["bad_responses"]}
    for one in attempts:
        finding = _finding(spec, one, next(values), next(values) | next(values) << 32, next(values), bad)
        if finding:
            yield f"command {one.command} with {one.changed}: {finding}"


def _finding(spec: CoreSpec, one: _Attempt, status: int, address: int, read: int, bad: set[tuple[str, int]]) -> str:
    """Compare status, error address and a register with golden."""
    errors = spec.registers.errors
    code = status >> 8 & 0xFF
    found = (errors(code).name if code in set(errors) else str(code)) if code else "", address if code else 0
    words = (setting.words(one.settings[setting.name]) for setting in spec.registers.settings)
    if read != next(found[one.register] for found in words if one.register in found):
        return f"{one.register} is {read:#x}"
    if status & 3 != 2 or bool(status & 4) != bool(code):
        return f"status {status:#x}"
    if expected := spec.refusal(one.command, one.settings):
        wanted = expected.error.name, expected.value
        return "" if found == wanted else f"{found}, not {wanted}"
    ends = {*trials_of(spec).ends(spec, one.command, one.settings), *bad}
    return "" if found in ends else f"{found}, and no such response came"


def write_settings(session: Session, core: CoreRegisters, settings: Mapping[str, int], written: dict[str, int]) -> None:
    """Write the settings that differ from `written`, the core's present values, and update `written`."""
    for setting in core.settings:
        for name, value in setting.words(settings[setting.name]).items():
            if written.get(name) != value:
                session.write(core.map[name].offset, value)
            written[name] = value


def _attempts(spec: CoreSpec, rng: np.random.Generator) -> list[_Attempt]:
    trials, core, edges = trials_of(spec), spec.registers, _edges(spec)
    names, commands = core.setting_names, [*core.commands]
    registers = [name for setting in core.settings for name in setting.registers]
    found = []

    def attempt(command: int, changed: dict[str, int], strobes: int = ALL_BYTES) -> None:
        register = str(rng.choice(registers))
        found.append(_Attempt(command, strobes, usual_settings(spec) | changed, changed, register))

    usual = usual_settings(spec)
    for command in commands:
        for address in core.addresses:
            for bit in (*range(exact_log2(BEAT)), *range(spec.address, 64)):
                attempt(command, {address.name: usual[address.name] | 1 << bit})
    for address in core.addresses:
        given = spec.image_beats.get(address.name, 1)
        beats = usual[given] if isinstance(given, str) else given
        for place in {1, beats, beats - 1, beats + 1} - {0}:
            for command in address.commands:
                attempt(command, {address.name: (1 << spec.address) - place * BEAT})
    for settings in trials.together(spec, edges):
        attempt(trials.command, settings)
    for address in core.addresses:
        for bit in range(32, spec.address):
            attempt(address.commands[0], {address.name: usual[address.name] | 1 << bit})
    for name in names:
        for value in edges:
            attempt(int(rng.choice(commands)) if value % 16 == 0 else commands[-1], {name: value})
            attempt(trials.command, {name: value})
    for _ in range(RANDOM_COMMANDS):
        command = int(
            rng.choice([*commands, *commands, 0, len(commands) + 1, *(1 << int(bit) for bit in range(3, 32))])
        )
        attempt(command, {name: _draw(edges, rng) for name in names if rng.random() < 0.12})
    for command in commands:
        for bit in range(max(commands).bit_length(), 32):  # no command, but one in its lower bits
            attempt(command | 1 << bit, {})
        for strobes in range(1, ALL_BYTES):
            attempt(command * 0x0101_0101, {}, strobes)
    return found


def usual_settings(spec: CoreSpec) -> dict[str, int]:
    """Accepted settings."""
    values = {name: _FIRST_ADDRESS * number for number, name in enumerate(spec.registers.setting_names, 1)}
    return values | trials_of(spec).usual(spec)


def _edges(spec: CoreSpec) -> list[int]:
    """Values around limits, and powers of two."""
    limits = _LIMITS | trials_of(spec).limits(spec)
    near = {limit + step for limit in limits for step in (-1, 0, 1)} | {1 << bit for bit in range(32)}
    return sorted(value for value in near if 0 <= value < _WORD)


def _draw(edges: list[int], rng: np.random.Generator) -> int:
    return int(rng.choice(edges)) if rng.random() < 0.9 else int(rng.integers(_WORD))
