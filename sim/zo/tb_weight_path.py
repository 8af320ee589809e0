"""Bench of `weight_path`: packets perturbed with either sign or not, valid and invalid corrections; two jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.block import Words, last_flags
from ...golden.zo.weight_path import SCALE, WeightPathSpec
from ..nf4 import tb_nf4_dequant
from ..phase import Phase
from ..stimulus import two_jobs
from . import tb_perturb, tb_sparse_add


def stimulus(spec: WeightPathSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Packets perturbed with either sign or not, with all kinds of corrections, some invalid."""
    lengths = tb_sparse_add.packet_lengths(rng, words)
    sign = np.repeat(rng.choice([1, -1, 0, -2], len(lengths), p=[0.4, 0.3, 0.2, 0.1]), lengths)[:, None]
    nf4 = tb_nf4_dequant.stimulus(spec.dequant, rng, words)["i"]
    small = nf4["scale"] & SCALE.maximum
    codes = nf4 | {"scale": small, "sign": sign, "last": last_flags(lengths)}
    del codes["tag"]
    numbers = tb_perturb.stimulus(spec.perturb, rng, int((sign & 1).sum()))["i"]
    return {
        "codes": codes,
        "sparse": tb_sparse_add.corrections(spec.add, rng, lengths),
        "u": {name: numbers[name] for name in ("number", "scale") if name in numbers},
    }


def scenario(spec: WeightPathSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs; the cycles depend on the corrections."""
    return [replace(phase, cycles=spec.cycles(phase.inputs)) for phase in two_jobs(spec, rng, words, stimulus)]
