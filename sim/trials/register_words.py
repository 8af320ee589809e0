"""Words in all registers that a host writes and reads: each keeps every bit of its own, at its own address."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...golden.cores.instantft import InstantftSpec
from ...golden.cores.zotrain import ZotrainSpec
from ..compiled.session import SMALLEST_MEMORY, Session

_ROUNDS = 2
"""Random words of each register; behind each comes the one with all bits inverted."""


def register_findings(program: Path, spec: InstantftSpec | ZotrainSpec, seed: int, mutant: int = 0) -> list[str]:
    """Write different words to all registers, read them back, and list what is not as it was written.

    Parameters
    ----------
    program : Path
        The core, from `build.build`.
    spec : InstantftSpec or ZotrainSpec
        Its parameters.
    seed : int
        Seed of the words.
    mutant : int
        See `Session`.
    """
    registers = spec.registers.map.accessed("RW")
    words = np.random.default_rng(seed).integers(1 << 32, size=(_ROUNDS, len(registers)))
    rounds = [given for some in words for given in (some, some ^ 0xFFFF_FFFF)]
    session = Session(program, SMALLEST_MEMORY, seed=seed, mutant=mutant)
    for given in rounds:
        for register, word in zip(registers, given.tolist(), strict=True):
            session.write(register.offset, word)
        for register in registers:
            session.read(register.offset)
    values = iter(access["value"] for access in session.run()["reads"])
    return [
        f"{register.name} is {found:#x}, not {word:#x}"
        for given in rounds
        for register, word in zip(registers, given.tolist(), strict=True)
        if (found := next(values)) != word
    ]
