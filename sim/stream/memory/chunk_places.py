"""Stimuli of blocks that work on chunks of the activation memory: places that the memory has."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....golden.stream.values.chunk_unit import ChunkUnitSpec


def places(
    spec: ChunkUnitSpec, rng: np.random.Generator, rows: int, groups: Mapping[str, int], either: bool = True
) -> dict[str, int]:
    """Draw the places of values of so many rows, and of so many chunks each, and the stride.

    They are in `either` memory, or all in the narrow one: then no place says in which.
    """
    addresses = 1 << spec.layout.address.width
    wide = {name: int(either and rng.integers(2)) for name in groups}
    lines = {name: count if wide[name] else -(-count // spec.layout.parts) for name, count in groups.items()}
    most = min((addresses - rows) // max(lines.values()), spec.sums)
    stride = int(rng.integers(0, most, endpoint=True))
    found = {"stride": stride}
    for name in groups:
        if either:
            found[f"{name}_wide"] = wide[name]
        found[name] = int(rng.integers(0, addresses - rows - (lines[name] - 1) * stride, endpoint=True))
    return found
