"""Rules of `scale`: golden factors after a reset and after any load; a load scans out the old state.

Three 4-bit numbers suffice for varying factors; the golden factors of the 15 positions form a table.
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
