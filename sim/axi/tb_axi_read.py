"""Bench of `axi_read`: random commands to random memories, errors, and commands behind a stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.axi.axi_read import AxiReadSpec
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


def scenario(spec: AxiReadSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make two jobs, one of which errors end at their first beat, and one that a stop keeps from the bus.

    Each is at addresses of its own. The last of the jobs that are answered in full is answered as if it were exclusive.
    """
    size = spec.data // 8
    phases = []
    for reset in (True, False):
        base, memory = random_base(rng, spec.address), rng.integers(0, 256, REGION)
        commands = random_commands(rng, base, size, words)
        data = memory[byte_indices(commands, base, size)]
        last = np.zeros((len(data), 1), np.int64)
        last[np.cumsum(commands["beats"][:, 0]) - 1] = 1
        expected = {"o": {"data": data, "last": last}, HOST: end_answers()}
        exclusive = () if reset else ((base, base + REGION, EXOKAY),)
        phases.append(
            Phase(
                {"command": commands},
                expected,
                reset,
                quiet=True,
                memory={base: memory},
                responses=exclusive,
                script=END,
            )
        )
    for error in (DECERR, 0):
        base = random_base(rng, spec.address)
        commands = random_commands(rng, base, size, words // 4)
        address = int(commands["address"][0, 0]) if error else 0
        refused, told = first_error(commands, base), {HOST: end_answers(error, address)}
        phases.append(Phase({"command": commands}, told, quiet=True, responses=refused, script=END))
    return [*phases[:-1], replace(STOP, reset=True), phases[-1]]
