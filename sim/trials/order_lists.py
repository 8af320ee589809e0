"""Order lists with one entry at a limit: the core ends with the error and value that its page says, or without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from ...golden.axi.bus import BEAT
from ...golden.cores.instantft.instantft import InstantftSpec
from ...golden.cores.instantft.registers import Command as TuningCommand
from ...golden.cores.instantft.registers import Error as TuningError
from ...golden.cores.zotrain.registers import Command as TrainingCommand
from ...golden.cores.zotrain.registers import Error as TrainingError
from ...golden.cores.zotrain.zotrain import ZotrainSpec
from ...golden.zo.memory_layout import COUNT_BIT, LABEL_BIT, WORDS
from ..compiled.session import LARGEST_MEMORY, Session
from .refusals import LIMIT, usual_settings, write_settings

_HALVES = 0xAAAAAA, 0x555555, 0xAA000000, 0x55000000
"""Entries with every second bit of a wrong index or label."""


@dataclass(frozen=True)
class _Entry:
    """Words of an order list, settings that are not the usual ones, and how the command ends."""

    words: tuple[int, ...]
    settings: dict[str, int]
    error: IntEnum | None = None
    value: int = 0


def order_findings(program: Path, spec: InstantftSpec | ZotrainSpec, mutant: int = 0) -> list[str]:
    """Run a job for each entry on a core with a network of zeros, and list what ends in another way.

    Each bit of an index and of a label, at the limit that the settings or the network give, and one below it, and in
    each word of a beat; of a zeroth-order step also its number of samples, the bits that are to be 0, and each bit of
    the index of a sample that cannot be read, whose address the error tells.

    Parameters
    ----------
    program : Path
        The core, from `build.build`.
    spec : InstantftSpec or ZotrainSpec
        Its parameters.
    mutant : int
        See `Session`.
    """
    tuning = isinstance(spec, InstantftSpec)
    entries = list(_tuning(spec) if isinstance(spec, InstantftSpec) else _training(spec))
    core, usual = spec.registers, usual_settings(spec)
    session, written = Session(program, LARGEST_MEMORY, mutant=mutant), dict[str, int]()
    command = int(TuningCommand.TUNE if tuning else TrainingCommand.TRAIN)
    loads = [TuningCommand.LOAD, TuningCommand.LOAD_ADAPTERS] if tuning else [TrainingCommand.LOAD]
    commands = [(int(load), _Entry((), {})) for load in loads] + [(command, entry) for entry in entries]
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


def _training(spec: ZotrainSpec) -> Iterator[_Entry]:
    error, classes = TrainingError, spec.labels
    for bit in range(LABEL_BIT):
        at = {"sample_count": 1 << bit}
        yield _Entry((1, 1 << bit), at, error.BAD_INDEX, 1 << bit)
        yield _Entry((1, (1 << bit) - 1), at)
    for bit in range(LABEL_BIT, 32):
        yield _Entry((1, (1 << LABEL_BIT) - 1), {"sample_count": 1 << bit})
    for label in _labels(classes):
        word = label << LABEL_BIT
        yield _Entry((1, word), {}) if label < classes else _Entry((1, word), {}, error.BAD_LABEL, word)
    for bit in range(8):
        word = 1 | (1 << bit) << COUNT_BIT
        yield _Entry((word, 0), {"batch": 1 << bit}, error.BAD_STEP, word)
        if bit < 4:  # a step of as many samples as there is room for
            yield _Entry((1 | ((1 << bit) - 1) << COUNT_BIT, *([0] * (1 << bit))), {"batch": 1 << bit})
    for bit in range(LABEL_BIT, 32):
        yield _Entry((1 | 1 << bit, 0), {}, error.BAD_STEP, 1 | 1 << bit)
    count = 2 * WORDS
    for position in range(count):
        for word in _HALVES:
            order = (1 | (count - 1) << COUNT_BIT, *([0] * position), word, *([0] * (count - 1 - position)))
            kind = error.BAD_LABEL if word >> LABEL_BIT else error.BAD_INDEX
            yield _Entry(order, {"batch": count}, kind, word)
    samples = 1 << spec.address - 1
    for bit in range(LABEL_BIT):
        index, address = 1 << bit, samples + (BEAT * spec.mapping.forward.sample_beats << bit)
        settings = {"samples": samples, "sample_count": index + 1}
        yield _Entry((1, index), settings, error.READ_DECERR, address % (1 << spec.address))


def _tuning(spec: InstantftSpec) -> Iterator[_Entry]:
    error, classes = TuningError, spec.labels
    for bit in range(LABEL_BIT):
        entries = min(1 << bit, spec.cache_entries)
        yield _Entry((1 << bit,), {"cache_entries": entries}, error.BAD_INDEX, 1 << bit)
        yield _Entry((entries - 1,), {"cache_entries": entries})
    for label in _labels(classes):
        word = label << LABEL_BIT
        yield _Entry((word,), {}) if label < classes else _Entry((word,), {}, error.BAD_LABEL, label)
    for at in range(min(spec.batch, WORDS)):
        for word in _HALVES:
            settings = {"batch": at + 1, "samples_per_epoch": at + 1}
            label = word >> LABEL_BIT
            kind = error.BAD_LABEL if label else error.BAD_INDEX
            yield _Entry((*([0] * at), word), settings, kind, label or word)


def _labels(classes: int) -> list[int]:
    """List labels with each bit, and those at the limit."""
    return sorted({classes - 1, classes, 255, *(1 << bit for bit in range(8))})
