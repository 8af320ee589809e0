"""Bench of `axi_write`: random commands and data, full memory comparison, errors, and commands after a stop."""

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
    random_bases,
    random_commands,
)


def scenario(spec: AxiWriteSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs with overlapping writes, two jobs of errors only, and a job blocked by a stop.

    The addresses of a pair of jobs differ in every bit, and the whole region is compared. Both begin with a command
    that fills the FIFO; the second gets EXOKAY responses. The first is then repeated, with the FIFO filled with data
    before the first command.
    """
    bases = (*random_bases(rng, spec.address), *random_bases(rng, spec.address))
    first, second = (_job(spec, rng, words, base) for base in bases[:2])
    second = replace(second, reset=False, responses=((bases[1], bases[1] + REGION, EXOKAY),))
    refused = [_refused(spec, rng, words // 8, base, DECERR) for base in bases[2:]]
    stopped = replace(_refused(spec, rng, words // 8, bases[0], 0), reset=False)
    early = Phase({"i": {"data": first.inputs["i"]["data"][: spec.depth + 1]}}, reset=True)
    late = {"command": first.inputs["command"], "i": {"data": first.inputs["i"]["data"][spec.depth + 1 :]}}
    return [
        first,
        second,
        early,
        replace(first, inputs=late, reset=False),
        *refused,
        replace(STOP, reset=True),
        stopped,
    ]


def _job(spec: AxiWriteSpec, rng: np.random.Generator, words: int, base: int) -> Phase:
    """Random commands and data, from reset."""
    size, memory = spec.data // 8, rng.integers(0, 256, REGION)
    commands = random_commands(rng, base, size, words, spec.depth + 2 * spec.burst)
    before, indices = memory.copy(), byte_indices(commands, base, size)
    data = rng.integers(0, 256, indices.shape)
    for place, beat in zip(indices, data, strict=True):  # in order: a later one may write the same bytes
        memory[place] = beat
    return Phase(
        {"command": commands, "i": {"data": data}},
        {"memory": {"byte": memory[:, None]}, HOST: end_answers()},
        reset=True,
        memory={base: before},
        kept={"memory": base},
        script=END,
    )


def _refused(spec: AxiWriteSpec, rng: np.random.Generator, words: int, base: int, error: int) -> Phase:
    """A job whose accesses all get errors, the first with code `error`: memory stays unchanged."""
    job = _job(spec, rng, words, base)
    commands = job.inputs["command"]
    answers = end_answers(error, int(commands["address"][0, 0]) if error else 0)
    before = {"byte": job.memory[base][:, None]}
    return replace(job, expected={"memory": before, HOST: answers}, responses=first_error(commands, base))
