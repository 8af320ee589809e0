"""Bench of `instantft`: a job through registers and memory, a second on the same cache, a third with a raw one."""

from __future__ import annotations

import numpy as np

from ...golden.cores.instantft import InstantftSpec
from ...golden.cores.scenario import Scenario
from ..phase import Phase


def scenario(spec: InstantftSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Jobs with random numbers: see `golden.cores.scenario`."""
    return Scenario(spec, rng, words).phases()
