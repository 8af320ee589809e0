"""Rules of `pezo` on the fly: golden's words from reset and from any load, mark or replay on.

One number of four bits and its factor: the ring of their state has eight bits. How several registers rotate is proved
of `urng`.
"""

from __future__ import annotations

from ...golden.rng.pezo import PezoSpec
from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import UrngSpec
from ..formal.checker import Checker
from .sequence import offers, sequence

SPEC = PezoSpec(scale=ScaleSpec(urng=UrngSpec(n=1, bits=4, allow_power_of_two=True)))


def check(checker: Checker, spec: PezoSpec) -> None:
    """Add the rules."""
    offers(checker, spec.replay_cycles)
    sequence(checker, spec, spec.can_replay)
