"""Bench of `axi_write`: random commands and data, all of the memory compared, errors, and commands behind a stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.axi.axi_write import AxiWriteSpec
from ..phase import HOST, Phase
from .commands import (
    DECERR,
    END,
    EXOKAY,
    REGION,
    STOP,
    byte_indices,
    end_answers,
    first_error,
    random_base,
    random_commands,
)


def scenario(spec: AxiWriteSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make two jobs, overlapping writes too, one of errors alone, and one that a stop keeps from the bus.

    Each is at addresses of its own, and all of the memory there is compared. The last of the jobs that are answered in
    full is answered as if it were exclusive.
    """
    size = spec.data // 8
    phases = []
    for job, reset in (("first", True), ("second", False), ("refused", False), ("stopped", False)):
        base, memory = random_base(rng, spec.address), rng.integers(0, 256, REGION)
        before, written = memory.copy(), job in ("first", "second")
        commands = random_commands(rng, base, size, words if written else words // 4)
        indices = byte_indices(commands, base, size)
        data = rng.integers(0, 256, indices.shape)
        if written:
            for place, beat in zip(indices, data, strict=True):  # in order: a later one may write the same bytes
                memory[place] = beat
        error, address = (DECERR, int(commands["address"][0, 0])) if job == "refused" else (0, 0)
        exclusive = ((base, base + REGION, EXOKAY),) if job == "second" else ()
        phases.append(
            Phase(
                {"command": commands, "i": {"data": data}},
                {"memory": {"byte": memory[:, None]}, HOST: end_answers(error, address)},
                reset,
                memory={base: before},
                kept={"memory": base},
                responses=exclusive if written else first_error(commands, base),
                script=END,
            )
        )
    return [*phases[:-1], replace(STOP, reset=True), phases[-1]]
