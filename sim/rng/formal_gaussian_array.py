"""Rules of `gaussian_array`: a word in every cycle outside loads, marks and replays, which last exactly as specified.

A single generator contains the whole control: its registers form the rotating ring. The rules of `grng` cover the
words. That a replay restores the marked state is proved for `pezo`, which has the same kind of ring; for this ring of
68 bits a proof takes too long, so the bench checks it.
"""

from __future__ import annotations

from ...golden.rng.gaussian_array import GaussianArraySpec
from ..formal.checker import Checker
from .sequence import offers

SPEC = GaussianArraySpec(n=1)


def check(checker: Checker, spec: GaussianArraySpec) -> None:
    offers(checker, spec.replay_cycles)
