"""Bench of `axi_read`: random commands to random memories, errors, and commands after a stop."""

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
    """Two jobs, long commands ended by a stop, two jobs failing at the first beat, and a job after a stop.

    The addresses of a pair of jobs differ in every bit. The first job begins with many bursts: a count off by one beat
    per burst would use up the FIFO's space. The second begins with a command that fills the FIFO, and gets EXOKAY
    responses.
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
        sent = {"command": commands}
        phases.append(Phase(sent, expected, reset, quiet=True, memory={base: memory}, responses=exclusive, script=END))
    bases = random_bases(rng, spec.address)
    phases += [_busy(spec, bases[0]), *_long_commands(spec, rng, bases[0])]
    for error, base in zip((DECERR, DECERR, 0), (*bases, bases[0]), strict=True):
        phases.append(Phase(reset=True) if error else replace(STOP, reset=True))
        commands = random_commands(rng, base, size, words // 8)
        host = {HOST: end_answers(error, int(commands["address"][0, 0]) if error else 0)}
        phases.append(Phase({"command": commands}, host, quiet=True, responses=first_error(commands, base), script=END))
    return phases


def _busy(spec: AxiReadSpec, base: int) -> Phase:
    """A command whose `idle` must read 0 before its first burst; a stop ends the phase."""
    command = {"address": np.array([[base]]), "beats": np.array([[4 * spec.depth]])}
    answers = {name: np.concatenate([np.zeros((1, 1), np.int64), words]) for name, words in end_answers().items()}
    script = (Step("get", "idle"), *STOP.script, *END)
    return Phase({"command": command}, {HOST: answers}, True, quiet=True, script=script)


def _long_commands(spec: AxiReadSpec, rng: np.random.Generator, base: int) -> list[Phase]:
    """For each high bit of the beat count a command with this bit set, stopped after a few beats."""
    size, phases = spec.data // 8, list[Phase]()
    beats = 3 * spec.burst
    memory = rng.integers(0, 256, REGION)
    data = memory[: beats * size].reshape(beats, size)
    expected = {"o": {"data": data, "last": np.zeros((beats, 1), np.int64)}, HOST: end_answers()}
    for bit in range((REGION // size).bit_length() - 1, BEAT_COUNT_BITS):
        # a block that ignores the bit ends the command before the stop
        command = {"address": np.array([[base]]), "beats": np.array([[(1 << bit) + beats - 1]])}
        script = (*STOP.script, *END)
        phases.append(Phase({"command": command}, expected, True, quiet=True, memory={base: memory}, script=script))
    return phases
