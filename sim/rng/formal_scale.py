"""Rules of `scale`: golden's factors from reset and from any load on, and a load reads the old state.

The factors of three numbers of four bits differ; their 15 positions are a table.
"""

from __future__ import annotations

from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import UrngSpec
from ..formal.checker import Checker
from .sequence import frozen, offers, sequence

SPEC = ScaleSpec(urng=UrngSpec(n=3, bits=4))


def check(checker: Checker, spec: ScaleSpec) -> None:
    """Add the rules."""
    offers(checker)
    sequence(checker, spec, replays=False)
    if spec.varies:
        frozen(checker, spec.urng.bits, int(spec.table.min()))
