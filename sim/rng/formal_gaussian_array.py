"""Rules of `gaussian_array`: a word in every cycle except during loads, marks and replays of exact length.

A single generator contains the whole control: its registers form the rotating ring. The rules of `grng` cover the
words. The bench checks that a replay restores the marked state: a 68-bit ring is too long for a proof in seconds, and
`pezo`, with the same kind of ring, has this proof.
"""

from __future__ import annotations

from ...golden.rng.gaussian_array import GaussianArraySpec
from ..formal.checker import Checker
from .sequence import offers

SPEC = GaussianArraySpec(n=1)


def check(checker: Checker, spec: GaussianArraySpec) -> None:
    offers(checker, spec.replay_cycles)
