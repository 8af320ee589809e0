"""Order lists with one entry at a limit: the core ends with the error and value of its `OrderEntry`, or without."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

import numpy as np

from ...golden.cores.core import CoreSpec
from ...golden.zo.memory_layout import COUNT_BIT, LABEL_BIT, WORDS
from ..compiled.session import LARGEST_MEMORY, Session
from .contract import OrderEntry, trials_of
from .refusals import LIMIT, usual_settings, write_settings

HALVES = 0xAAAAAA, 0x555555, 0xAA000000, 0x55000000
"""Entries with every second bit of a wrong index or label."""


def order_findings(program: Path, spec: CoreSpec, mutant: int = 0) -> list[str]:
    """Run a job for each entry on a core with a network, and list what ends in another way.

    Each entry of `Trials.entries` comes after the commands of `Trials.loads`. The network is that of `Trials.images`,
    or of zeros.

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
    loads = [(int(load), OrderEntry((), {})) for load in trials.loads]
    commands = [*loads]
    for entry in trials.entries(spec):
        commands.append((int(trials.command), entry))
        commands += loads if entry.error and not trials.keeps else []
    for name, image in trials.images(spec).items():
        session.load(usual[name], image)
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


def step_entries(errors: type[IntEnum], labels: int) -> Iterator[OrderEntry]:
    """Make order lists of a zeroth-order job with one entry at a limit.

    Each bit of an index and of a label, the number of a step's samples, the bits that are to be 0, and every second bit
    of a wrong entry at each place of two beats.

    Parameters
    ----------
    errors : type of IntEnum
        The core's error codes.
    labels : int
        Labels that a sample can have.
    """
    index, label, step = (errors[name] for name in ("BAD_INDEX", "BAD_LABEL", "BAD_STEP"))
    for bit in range(LABEL_BIT):
        at = {"sample_count": 1 << bit}
        yield OrderEntry((1, 1 << bit), at, index, 1 << bit)
        yield OrderEntry((1, (1 << bit) - 1), at)
    for bit in range(LABEL_BIT, 32):
        yield OrderEntry((1, (1 << LABEL_BIT) - 1), {"sample_count": 1 << bit})
    for one in edge_labels(labels):
        word = one << LABEL_BIT
        yield OrderEntry((1, word), {}) if one < labels else OrderEntry((1, word), {}, label, word)
    for bit in range(8):
        word = 1 | (1 << bit) << COUNT_BIT
        yield OrderEntry((word, 0), {"batch": 1 << bit}, step, word)
        if bit < 4:  # a step of as many samples as there is room for
            yield OrderEntry((1 | ((1 << bit) - 1) << COUNT_BIT, *([0] * (1 << bit))), {"batch": 1 << bit})
    for bit in range(LABEL_BIT, 32):
        yield OrderEntry((1 | 1 << bit, 0), {}, step, 1 | 1 << bit)
    count = 2 * WORDS
    for position in range(count):
        for word in HALVES:
            order = (1 | (count - 1) << COUNT_BIT, *([0] * position), word, *([0] * (count - 1 - position)))
            yield OrderEntry(order, {"batch": count}, label if word >> LABEL_BIT else index, word)


def edge_labels(classes: int) -> list[int]:
    """List labels with each bit, and those at the limit."""
    return sorted({classes - 1, classes, 255, *(1 << bit for bit in range(8))})
