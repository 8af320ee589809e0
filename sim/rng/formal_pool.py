"""Rules of `pool`: golden rows from reset and after any load, mark or replay; a load scans out the old address.

Seven rows use an LFSR address, as the default of 511 rows does.
"""

from __future__ import annotations

from ...golden.rng.pool import PoolSpec
from ..formal.checker import Checker
from .sequence import frozen, offers, sequence

SPEC = PoolSpec(size=21, p=3, bits=4)


def check(checker: Checker, spec: PoolSpec) -> None:
    offers(checker)
    sequence(checker, spec, replays=True)
    if spec.lfsr:
        frozen(checker, spec.address_bits, 0)
