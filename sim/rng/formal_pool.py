"""Rules of `pool`: golden rows after a reset and after any load, mark or replay; a load scans out the old address.

Seven rows, so that an LFSR gives the address, as for the default of 511 rows.
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
