"""Bench of `axi_read`: random commands to random memories, errors, and commands behind a stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.axi.axi_read import AxiReadSpec
from ...golden.axi.bus import BEAT_COUNT_BITS
from ..phase import HOST, Phase, Step
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
    """Make two jobs, long commands that a stop ends, two jobs that errors end at their first beat, one behind a stop.

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
    phases += [_busy(spec, bases[0]), *_long_commands(spec, rng, bases[0])]
    for error, base in zip((DECERR, DECERR, 0), (*bases, bases[0]), strict=True):
        phases.append(Phase(reset=True) if error else replace(STOP, reset=True))
        commands = random_commands(rng, base, size, words // 8)
        told = {HOST: end_answers(error, int(commands["address"][0, 0]) if error else 0)}
        phases.append(Phase({"command": commands}, told, quiet=True, responses=first_error(commands, base), script=END))
    return phases


def _busy(spec: AxiReadSpec, base: int) -> Phase:
    """Make a command behind which `idle` is low at once, before any burst is out; a stop ends it."""
    command = {"address": np.array([[base]]), "beats": np.array([[4 * spec.depth]])}
    answers = {name: np.concatenate([np.zeros((1, 1), np.int64), words]) for name, words in end_answers().items()}
    script = (Step("get", "idle"), *STOP.script, *END)
    return Phase({"command": command}, {HOST: answers}, True, quiet=True, script=script)


def _long_commands(spec: AxiReadSpec, rng: np.random.Generator, base: int) -> list[Phase]:
    """Make commands with each bit of the number of beats that a job is too short for, and a stop after a few beats."""
    size, phases = spec.data // 8, list[Phase]()
    beats = 3 * spec.burst
    memory = rng.integers(0, 256, REGION)
    data = memory[: beats * size].reshape(beats, size)
    expected = {"o": {"data": data, "last": np.zeros((beats, 1), np.int64)}, HOST: end_answers()}
    for bit in range((REGION // size).bit_length() - 1, BEAT_COUNT_BITS):
        # without the bit it is over before the stop
        command = {"address": np.array([[base]]), "beats": np.array([[(1 << bit) + beats - 1]])}
        script = (*STOP.script, *END)
        phases.append(Phase({"command": command}, expected, True, quiet=True, memory={base: memory}, script=script))
    return phases
