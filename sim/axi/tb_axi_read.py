"""Bench of `axi_read`: random commands to a random memory, then a second job without a reset."""

from __future__ import annotations

import numpy as np

from ...golden.axi.axi_read import AxiReadSpec
from ..phase import HOST, Phase
from .commands import END, END_ANSWERS, REGION, byte_indices, random_base, random_commands


def scenario(spec: AxiReadSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Random commands to a random memory, then others without a reset, to a memory that has changed."""
    base, size = random_base(rng, spec.address), spec.data // 8
    phases = []
    for reset in (True, False):
        memory = rng.integers(0, 256, REGION)
        commands = random_commands(rng, base, size, words)
        data = memory[byte_indices(commands, base, size)]
        last = np.zeros((len(data), 1), np.int64)
        last[np.cumsum(commands["beats"][:, 0]) - 1] = 1
        expected = {"o": {"data": data, "last": last}, HOST: END_ANSWERS}
        phases.append(Phase({"command": commands}, expected, reset, quiet=True, memory={base: memory}, script=END))
    return phases
