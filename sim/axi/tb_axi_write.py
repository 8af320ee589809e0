"""Bench of `axi_write`: random commands and data, all of the memory compared, then a second job without a reset."""

from __future__ import annotations

import numpy as np

from ...golden.axi.axi_write import AxiWriteSpec
from ..phase import HOST, Phase, Step
from .commands import END, END_ANSWERS, REGION, byte_indices, random_base, random_commands

PATIENCE = 10_000
"""Cycles that a scenario waits for the last response."""


def scenario(spec: AxiWriteSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Random commands, overlapping ones too, then others without a reset; all of the memory is compared."""
    base, size = random_base(rng, spec.address), spec.data // 8
    memory = rng.integers(0, 256, REGION)
    phases = []
    for reset in (True, False):
        commands = random_commands(rng, base, size, words)
        indices = byte_indices(commands, base, size)
        data = rng.integers(0, 256, indices.shape)
        before = memory.copy()
        for place, beat in zip(indices, data, strict=True):  # in order: a later one may write the same bytes
            memory[place] = beat
        phases.append(
            Phase(
                {"command": commands, "i": {"data": data}},
                {"memory": {"byte": memory.copy()[:, None]}, HOST: END_ANSWERS},
                reset,
                memory={base: before},
                kept={"memory": base},
                script=(Step("until", "idle", PATIENCE), *END),
            )
        )
    return phases
