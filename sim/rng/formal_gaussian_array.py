"""Rules of `gaussian_array`: a word in every cycle but those of loads, marks and replays, whose number is exact.

A single generator has all of the control: its registers are the ring that turns. The words themselves are those of
`grng`, whose rules follow them; that a turn brings back the mark's state is left to the bench, as the ring of 68 bits
is too long for a proof in seconds. `pezo` has the same ring, and there it is proved.
"""

from __future__ import annotations

from ...golden.rng.gaussian_array import GaussianArraySpec
from ..formal.checker import Checker
from .sequence import offers

SPEC = GaussianArraySpec(n=1)


def check(checker: Checker, spec: GaussianArraySpec) -> None:
    """Add the rules."""
    offers(checker, spec.replay_cycles)
