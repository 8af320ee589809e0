"""Random activation-memory addresses for stimuli of chunk units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....golden.stream.values.chunk_unit import ChunkUnitSpec


def places(
    spec: ChunkUnitSpec, rng: np.random.Generator, rows: int, groups: Mapping[str, int], either: bool = True
) -> dict[str, int]:
    """Random base addresses of arrays, and the stride that they share; an array has `rows` rows of `groups` chunks.

    With `either` each array is in a random memory, which a field `<name>_wide` tells; else all are in the narrow
    memory.
    """
    addresses = 1 << spec.layout.address.width
    wide = {name: int(either and rng.integers(2)) for name in groups}
    lines = {name: count if wide[name] else -(-count // spec.layout.parts) for name, count in groups.items()}
    most = min((addresses - rows) // max(lines.values()), spec.sums)
    stride = int(rng.integers(0, most, endpoint=True))
    fields = {"stride": stride}
    for name in groups:
        if either:
            fields[f"{name}_wide"] = wide[name]
        fields[name] = int(rng.integers(0, addresses - rows - (lines[name] - 1) * stride, endpoint=True))
    return fields
