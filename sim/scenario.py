"""Find the stimulus of a block: `scenario` or `stimulus` of its bench module, ``sim/<area>/tb_<block>.py``."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np

from ..golden.block import Spec, Words
from .phase import Phase
from .stimulus import two_jobs


def bench_module(spec: Spec) -> ModuleType:
    """Import the bench module of a spec, by its area and name."""
    return import_module(f"{__package__}.{spec.area()}.tb_{spec.name}")


def scenario(spec: Spec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make the phases of a block's bench.

    Parameters
    ----------
    spec : Spec
        Golden's parameters.
    rng : Generator
        Source of all random words.
    words : int
        About how many words each phase takes.

    Returns
    -------
    list of Phase
        From the module's ``scenario(spec, rng, words)``; where it has only a ``stimulus``, two jobs with that
        (`two_jobs`).
    """
    module = bench_module(spec)
    if hasattr(module, "scenario"):
        phases: list[Phase] = module.scenario(spec, rng, words)
        return phases
    return two_jobs(spec, rng, words, module.stimulus)


def stimulus(spec: Spec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Make random input of a block by its module's ``stimulus(spec, rng, words)``."""
    given: dict[str, Words] = bench_module(spec).stimulus(spec, rng, words)
    return given
