"""Rules of `scale`: golden factors from reset and after any load; a load scans out the old state.

The factors of three 4-bit numbers vary; their 15 positions form a table.
"""

from __future__ import annotations

from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import UrngSpec
from ..formal.checker import Checker
from .sequence import frozen, offers, sequence

SPEC = ScaleSpec(urng=UrngSpec(n=3, bits=4))


def check(checker: Checker, spec: ScaleSpec) -> None:
    offers(checker)
    sequence(checker, spec, replays=False)
    if spec.varies:
        frozen(checker, spec.urng.bits, int(spec.table.min()))
