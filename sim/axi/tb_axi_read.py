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
    random_bases,
    random_commands,
)


def scenario(spec: AxiReadSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make two jobs, two that errors end at their first beat, and one that a stop keeps from the bus.

    The addresses of a pair of jobs differ in each bit. The first one begins with so many bursts that a miscounted beat
    of each would be a burst's room. The second begins with a command that fills the FIFO, and is answered as if it were
    exclusive.
    """
    size = spec.data // 8
    phases = list[Phase]()
    for reset, base in zip((True, False), random_bases(rng, spec.address), strict=True):
        memory = rng.integers(0, 256, REGION)
        commands = random_commands(rng, base, size, words, spec.depth + 2 * spec.burst if phases else REGION)
        data = memory[byte_indices(commands, base, size)]
        last = np.zeros((len(data), 1), np.int64)
        last[np.cumsum(commands["beats"][:, 0]) - 1] = 1
        expected = {"o": {"data": data, "last": last}, HOST: end_answers()}
        exclusive = () if reset else ((base, base + REGION, EXOKAY),)
        given = {"command": commands}
        phases.append(Phase(given, expected, reset, quiet=True, memory={base: memory}, responses=exclusive, script=END))
    bases = random_bases(rng, spec.address)
    for error, base in zip((DECERR, DECERR, 0), (*bases, bases[0]), strict=True):
        phases.append(Phase(reset=True) if error else replace(STOP, reset=True))
        commands = random_commands(rng, base, size, words // 8)
        told = {HOST: end_answers(error, int(commands["address"][0, 0]) if error else 0)}
        phases.append(Phase({"command": commands}, told, quiet=True, responses=first_error(commands, base), script=END))
    return phases
