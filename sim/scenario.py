"""Find the stimulus of a block: `scenario` or `stimulus` of its bench module, ``sim/<area>/tb_<block>.py``."""

from __future__ import annotations

import numpy as np

from ..golden.block import Spec, Words
from ..golden.errors import UserError
from .phase import Phase
from .stimulus import two_jobs


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
    if own := spec.part("sim", f"tb_{spec.name}", "scenario"):
        phases: list[Phase] = own(spec, rng, words)
        return phases
    return two_jobs(spec, rng, words, stimulus)


def stimulus(spec: Spec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Make random input of a block by its module's ``stimulus(spec, rng, words)``.

    Raises
    ------
    UserError
        For a block without a bench.
    """
    if (own := spec.part("sim", f"tb_{spec.name}", "stimulus")) is None:
        raise UserError(f"{spec.name} has no bench: there is no tb_{spec.name}.py with a scenario or a stimulus")
    given: dict[str, Words] = own(spec, rng, words)
    return given
