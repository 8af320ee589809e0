"""Order lists with one entry at a limit: the core ends with the error and value of its `OrderEntry`, or without."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...golden.cores.core import CoreSpec
from ..compiled.session import LARGEST_MEMORY, Session
from .contract import OrderEntry, trials_of
from .refusals import LIMIT, usual_settings, write_settings

HALVES = 0xAAAAAA, 0x555555, 0xAA000000, 0x55000000
"""Entries with every second bit of a wrong index or label."""


def order_findings(program: Path, spec: CoreSpec, mutant: int = 0) -> list[str]:
    """Run a job for each entry on a core with a network of zeros, and list what ends in another way.

    Each entry of `Trials.entries` comes after the commands of `Trials.loads`.

    Parameters
    ----------
    program : Path
        The core, from `build.build`.
    spec : CoreSpec
        Its parameters.
    mutant : int
        See `Session`.
    """
    trials, core, usual = trials_of(spec), spec.registers, usual_settings(spec)
    session, written = Session(program, LARGEST_MEMORY, mutant=mutant), dict[str, int]()
    commands = [(int(load), OrderEntry((), {})) for load in trials.loads]
    commands += [(int(trials.command), entry) for entry in trials.entries(spec)]
    for number, entry in commands:
        if "samples" in entry.settings:  # from here on: what is in no region is an error
            session.region(0, entry.settings["samples"])
        if entry.words:
            session.load(usual["order"], np.array(entry.words, "<u4"))
        write_settings(session, core, usual | entry.settings, written)
        session.write(core.map["command"].offset, number)
        session.wait(LIMIT)
        for name in ("status", "error_address", "error_address_high"):
            session.read(core.map[name].offset)
    values = iter(access["value"] for access in session.run()["reads"])
    findings = []
    for number, entry in commands:
        status, value = next(values), next(values) | next(values) << 32
        found, wanted = (status >> 8 & 0xFF, value), (int(entry.error or 0), entry.value)
        if found != wanted or status & 3 != 2:
            findings.append(
                f"command {number} with {entry.words}, {entry.settings}: {status:#x}, {found}, not {wanted}"
            )
    return findings


def edge_labels(classes: int) -> list[int]:
    """List labels with each bit, and those at the limit."""
    return sorted({classes - 1, classes, 255, *(1 << bit for bit in range(8))})
