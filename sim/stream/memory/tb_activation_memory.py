"""Bench of `activation_memory`: chunks are written, then all readers read them at once, and others are written."""

from __future__ import annotations

import numpy as np

from ....golden.block import Field, Words, joined
from ....golden.fixed import Integers
from ....golden.stream.memory.activation_memory import READERS, ActivationMemorySpec
from ...phase import Phase

_ENDLESS = 1 << 62


def _fields(rng: np.random.Generator, words: int, *fields: Field) -> Words:
    """Make any numbers of some fields."""
    return {
        one.name: rng.integers(one.format.minimum, one.format.maximum, (words, one.lanes), endpoint=True)
        for one in fields
    }


def _chunks(spec: ActivationMemorySpec, rng: np.random.Generator, narrow: Integers, wide: Integers) -> Words:
    """Write all chunks of some rows of both memories, in any order; the values of the narrow one have 24 bits."""
    parts = spec.layout.parts
    address = np.concatenate([narrow.repeat(parts), wide])
    part = np.concatenate([np.tile(np.arange(parts), len(narrow)), np.zeros_like(wide)])
    is_wide = np.arange(len(address)) >= len(narrow) * parts
    values = _fields(rng, len(address), spec.streams()["write"].fields[-1])["value"]
    values[~is_wide] >>= 3
    order = rng.permutation(len(address))
    columns = {"wide": is_wide.astype(np.int64), "address": address, "part": part}
    return {name: column[order, None] for name, column in columns.items()} | {"value": values[order]}


def _reads(spec: ActivationMemorySpec, rng: np.random.Generator, narrow: Integers, wide: Integers) -> dict[str, Words]:
    """Read those rows, as a whole and in chunks, in any order and often twice; as many as there are chunks of them."""
    streams, parts, found = spec.streams(), spec.layout.parts, {}
    for name in READERS:
        port = streams[f"{name}_read"]
        words = int(rng.integers(len(narrow), 2 * len(narrow), endpoint=True))
        given = _fields(rng, words, *port.fields)
        given["address"] = rng.choice(narrow, (words, 1))
        if name == "operands":
            given["part"] %= parts
            given["part"][given["wide"] == 1] = 0
            given["address"] = np.where(given["wide"], rng.choice(wide, (words, 1)), given["address"])
        found[f"{name}_read"] = given
    return found


def read_cycles(reads: dict[str, Words]) -> int:
    """Cycles in which all reads are taken at full speed: in each one of the narrow memory, operands first."""
    wide = reads["operands_read"]["wide"][:, 0]
    free = np.concatenate([wide, np.ones(sum(len(one["address"]) for one in reads.values()), np.int64)])
    others = sum(len(reads[f"{name}_read"]["address"]) for name in READERS[1:])
    # the last of them goes in the cycle in which so many were free
    return max(len(wide), int(np.searchsorted(np.cumsum(free), others)) + 1)


def scenario(spec: ActivationMemorySpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Write; read while other rows are written; read those, in which there are the memories' last rows."""
    empty = {f"{name}_read": _fields(rng, 0, *spec.streams()[f"{name}_read"].fields) for name in READERS}
    sets = []
    count = min(max(words // 4, 2), min(spec.rows, spec.wide_rows) // 2)
    for rows in (spec.rows, spec.wide_rows):
        order = rng.permutation(rows - 1)[: 2 * count - 1]
        sets.append((order[:count], np.append(order[count:], rows - 1)))
    (narrow, later_narrow), (wide, later_wide) = sets
    first, second = _chunks(spec, rng, narrow, wide), _chunks(spec, rng, later_narrow, later_wide)
    reads = _reads(spec, rng, narrow, wide)
    more = _reads(spec, rng, np.append(narrow, later_narrow), np.append(wide, later_wide))
    none = {name: column[:0] for name, column in first.items()}
    # what is written in a phase and read in it is not known: each read is of what phases before have written
    written = joined([{"write": first}, {"write": second}])
    results = [
        spec.run({"write": known} | given, _ENDLESS) for known, given in ((first, reads), (written["write"], more))
    ]
    cycles = [read_cycles(given) + spec.latency for given in (reads, more)]
    return [
        Phase({"write": first} | empty, reset=True, cycles=len(first["address"]), quiet=True),
        Phase({"write": second} | reads, results[0], cycles=max(cycles[0], len(second["address"])), quiet=True),
        Phase({"write": none} | more, results[1], cycles=cycles[1], quiet=True),
    ]
