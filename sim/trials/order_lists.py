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
from .endings import Endings

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
    trials, session = trials_of(spec), Session(program, LARGEST_MEMORY, mutant=mutant)
    endings = Endings(session, spec)
    for name, image in trials.images(spec).items():
        session.load(endings.usual[name], image)

    def load() -> None:
        for one in trials.loads:
            endings.command(one, {}, "the network")

    load()
    for entry in trials.entries(spec):
        if "samples" in entry.settings:  # from here on: what is in no region is an error
            session.region(0, entry.settings["samples"])
        session.load(endings.usual["order"], np.array(entry.words, "<u4"))
        name = f"{entry.words}, {entry.settings}"
        endings.command(trials.command, entry.settings, name, entry.error, entry.value)
        if entry.error and not trials.keeps:
            load()
    return endings.findings()


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
