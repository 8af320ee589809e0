"""Bench of `activation_memory`: chunks are written, then read by all readers at once during further writes."""

from __future__ import annotations

import numpy as np

from ....golden.block import Field, Words, joined
from ....golden.fixed import Integers
from ....golden.stream.memory.activation_memory import READERS, ActivationMemorySpec
from ...phase import Phase
from ...stimulus import ALL


def _fields(rng: np.random.Generator, words: int, *fields: Field) -> Words:
    """Random words with these fields."""
    return {
        field.name: rng.integers(field.format.minimum, field.format.maximum, (words, field.lanes), endpoint=True)
        for field in fields
    }


def _chunks(spec: ActivationMemorySpec, rng: np.random.Generator, narrow: Integers, wide: Integers) -> Words:
    """Writes of all chunks of some rows of both memories, in random order; narrow values have 24 bits."""
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
    """Random reads of the written rows, of whole rows and of chunks, with repeats."""
    streams, parts, reads = spec.streams(), spec.layout.parts, {}
    for name in READERS:
        port = streams[f"{name}_read"]
        words = int(rng.integers(len(narrow), 2 * len(narrow), endpoint=True))
        fields = _fields(rng, words, *port.fields)
        fields["address"] = rng.choice(narrow, (words, 1))
        if name == "operands":
            fields["part"] %= parts
            fields["part"][fields["wide"] == 1] = 0
            fields["address"] = np.where(fields["wide"], rng.choice(wide, (words, 1)), fields["address"])
        reads[f"{name}_read"] = fields
    return reads


def read_cycles(reads: dict[str, Words]) -> int:
    """Cycles to take all reads at full speed: one narrow read per cycle, `operands` before other readers."""
    wide = reads["operands_read"]["wide"][:, 0]
    free = np.concatenate([wide, np.ones(sum(len(words["address"]) for words in reads.values()), np.int64)])
    others = sum(len(reads[f"{name}_read"]["address"]) for name in READERS[1:])
    # the last read of another reader takes free slot number `others`
    return max(len(wide), int(np.searchsorted(np.cumsum(free), others)) + 1)


def scenario(spec: ActivationMemorySpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Write rows; read them while other rows are written; read the other rows. Includes each memory's last row."""
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
    # reads only of rows written in earlier phases: within a phase the order of reads and writes is open
    written = joined([{"write": first}, {"write": second}])
    results = [spec.run({"write": known} | batch, ALL) for known, batch in ((first, reads), (written["write"], more))]
    cycles = [read_cycles(batch) + spec.latency for batch in (reads, more)]
    return [
        Phase({"write": first} | empty, reset=True, cycles=len(first["address"]), quiet=True),
        Phase({"write": second} | reads, results[0], cycles=max(cycles[0], len(second["address"])), quiet=True),
        Phase({"write": none} | more, results[1], cycles=cycles[1], quiet=True),
    ]
