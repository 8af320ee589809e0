"""Rules of `pezo` on the fly: golden words after a reset and after any load, mark or replay.

With one number of 4 bits and its factor the state ring has 8 bits. The rules of `urng` cover the rotation of several
registers.
"""

from __future__ import annotations

from ...golden.rng.pezo import PezoSpec
from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import UrngSpec
from ..formal.checker import Checker
from .sequence import offers, sequence

SPEC = PezoSpec(scale=ScaleSpec(urng=UrngSpec(n=1, bits=4, allow_power_of_two=True)))


def check(checker: Checker, spec: PezoSpec) -> None:
    offers(checker, spec.replay_cycles)
    sequence(checker, spec, spec.can_replay)
