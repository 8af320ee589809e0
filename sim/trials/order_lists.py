"""Sample schedules with an entry at a limit, for zeroth-order jobs and for tuning of adapters."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from ...golden.zo.memory_layout import COUNT_BIT, LABEL_BIT, WORDS
from .contract import Ending, order_ending

HALVES = 0xAAAAAA, 0x555555, 0xAA000000, 0x55000000
"""Entries with every second bit of a wrong index or label."""


def step_entries(errors: type[IntEnum], labels: int) -> Iterator[Ending]:
    """Make sample schedules of a zeroth-order job with an entry at a limit.

    The entries cover each bit of an index and of a label, the number of a step's samples, reserved bits, and wrong
    entries at each position of two beats.

    Parameters
    ----------
    errors : type of IntEnum
        Error codes of the core.
    labels : int
        Number of valid labels.
    """
    index, label, step = (errors[name] for name in ("BAD_INDEX", "BAD_LABEL", "BAD_STEP"))
    for bit in range(LABEL_BIT):
        at = {"sample_count": 1 << bit}
        yield order_ending((1, 1 << bit), at, index, 1 << bit)
        yield order_ending((1, (1 << bit) - 1), at)
    for bit in range(LABEL_BIT, 32):
        yield order_ending((1, (1 << LABEL_BIT) - 1), {"sample_count": 1 << bit})
    for one in edge_labels(labels):
        word = one << LABEL_BIT
        yield order_ending((1, word), {}) if one < labels else order_ending((1, word), {}, label, word)
    for bit in range(8):
        word = 1 | (1 << bit) << COUNT_BIT
        yield order_ending((word, 0), {"batch": 1 << bit}, step, word)
        if bit < 4:  # a step of as many samples as there is room for
            yield order_ending((1 | ((1 << bit) - 1) << COUNT_BIT, *([0] * (1 << bit))), {"batch": 1 << bit})
    for bit in range(LABEL_BIT, 32):
        yield order_ending((1 | 1 << bit, 0), {}, step, 1 | 1 << bit)
    count = 2 * WORDS
    for position in range(count):
        for word in HALVES:
            order = (1 | (count - 1) << COUNT_BIT, *([0] * position), word, *([0] * (count - 1 - position)))
            yield order_ending(order, {"batch": count}, label if word >> LABEL_BIT else index, word)


def batch_entries(errors: type[IntEnum], labels: int, batch: int, cache_entries: int) -> Iterator[Ending]:
    """Make sample schedules of a tuning of adapters with an entry at a limit.

    The entries cover each bit of an index and of a label, and wrong entries at each position of a beat. `batch` and
    `cache_entries` are the core's limits.
    """
    index, label = (errors[name] for name in ("BAD_INDEX", "BAD_LABEL"))
    for bit in range(LABEL_BIT):
        entries = min(1 << bit, cache_entries)
        yield order_ending((1 << bit,), {"cache_entries": entries}, index, 1 << bit)
        yield order_ending((entries - 1,), {"cache_entries": entries})
    for one in edge_labels(labels):
        word = (one << LABEL_BIT,)
        yield order_ending(word, {}) if one < labels else order_ending(word, {}, label, one)
    for at in range(min(batch, WORDS)):
        for wrong in HALVES:
            settings = {"batch": at + 1, "samples_per_epoch": at + 1}
            one = wrong >> LABEL_BIT
            yield order_ending((*([0] * at), wrong), settings, label if one else index, one or wrong)


def edge_labels(classes: int) -> list[int]:
    """Labels with a single bit, and labels at the limit."""
    return sorted({classes - 1, classes, 255, *(1 << bit for bit in range(8))})
