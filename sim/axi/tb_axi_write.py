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
    random_bases,
    random_commands,
)


def scenario(spec: AxiWriteSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make two jobs, overlapping writes too, two of errors alone, and one that a stop keeps from the bus.

    The addresses of a pair of jobs differ in each bit, and all of the memory there is compared. Both begin with a
    command that fills the FIFO; the second is answered as if it were exclusive. The first is done again with as much
    data as the FIFO holds ahead of the commands.
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
    """Make random commands and data, from reset."""
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
    """Make a job that leaves the memory as it was: each access gets an error, `error` the first one."""
    job = _job(spec, rng, words, base)
    commands = job.inputs["command"]
    told = end_answers(error, int(commands["address"][0, 0]) if error else 0)
    before = {"byte": job.memory[base][:, None]}
    return replace(job, expected={"memory": before, HOST: told}, responses=first_error(commands, base))
