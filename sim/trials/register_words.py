"""Words at all register addresses: each register must keep all its bits and answer as golden does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...golden.axi.axi_registers import Model
from ...golden.axi.register_map import WORD
from ...golden.cores.core import CoreSpec
from ..compiled.session import ALL_BYTES, SMALLEST_MEMORY, Session

_ROUNDS = 2
"""Number of random words for each address; each word is followed by its inverse."""


def register_findings(program: Path, spec: CoreSpec, seed: int, mutant: int = 0) -> list[str]:
    """Write different words to all addresses, read all, and describe differences from golden.

    First whole words, then a word with each set of byte strobes at each address. Commands and soft resets are never
    started. `seed` determines the words; `mutant` as in `Session`.
    """
    registers, rng = spec.registers.map, np.random.default_rng(seed)
    commands = [register.offset for register in registers.accessed("W", "W1S")]
    addresses = np.arange(0, 1 << registers.address_bits, WORD)
    whole = rng.integers(1 << 32, size=(_ROUNDS, len(addresses)))
    rounds = [(words, np.full_like(addresses, ALL_BYTES)) for some in whole for words in (some, some ^ 0xFFFF_FFFF)]
    for turn in range(ALL_BYTES + 1):
        strobes = (addresses // WORD + turn) % (ALL_BYTES + 1)
        rounds.append((rng.integers(1 << 32, size=len(addresses)), strobes))
    session, model = Session(program, SMALLEST_MEMORY, seed=seed, mutant=mutant), Model(registers, spec.signature)
    refused, expected = [], []
    for words, strobes in rounds:
        enabled = np.where(np.isin(addresses, commands), 0, strobes)
        for address, word, strobe in zip(addresses.tolist(), words.tolist(), enabled.tolist(), strict=True):
            session.write(address, word, strobe)
            if model.write(address, word, strobe):
                refused.append((address, word))
        for address in addresses.tolist():
            session.read(address)
            expected.append((address, *model.read(address)))
    result = session.run()
    reads = [(one["offset"], one["response"], one["value"]) for one in result["reads"]]
    findings = [f"{one}, not {right}" for one, right in zip(reads, expected, strict=True) if one != right]
    writes = [(one["offset"], one["value"]) for one in result["refused_writes"]]
    return findings if writes == refused else [*findings, f"{len(writes)} writes are refused, not {len(refused)}"]
