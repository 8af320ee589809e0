"""Phases of a block's bench, from its module ``sim/<area>/tb_<block>.py``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..golden.block import Spec
from ..golden.errors import UserError
from .phase import Phase
from .stimulus import two_jobs


def scenario(spec: Spec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Phases of a block's bench, with about `words` words each.

    Made by the bench module's ``scenario(spec, rng, words)``. A module with only ``stimulus`` gets two jobs
    (`two_jobs`); the first must take the spec's `latency` plus a cycle per word.

    Raises
    ------
    UserError
        For a block without a bench.
    """
    if module_scenario := spec.part("sim", "tb_{name}", "scenario"):
        phases: list[Phase] = module_scenario(spec, rng, words)
        return phases
    if (stimulus := spec.part("sim", "tb_{name}", "stimulus")) is None:
        raise UserError(f"{spec.name} has no bench: there is no tb_{spec.name}.py with a scenario or a stimulus")
    first, second = two_jobs(spec, rng, words, stimulus)
    longest = max(len(column) for columns in first.expected.values() for column in columns.values())
    return [replace(first, cycles=spec.latency + longest), second]
