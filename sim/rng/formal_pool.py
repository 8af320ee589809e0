"""Rules of `pool`: golden's rows from reset and from any load, mark or replay on, and a load reads the old address.

Seven rows have an LFSR as their address, as the default's 511 have.
"""

from __future__ import annotations

from ...golden.rng.pool import PoolSpec
from ..formal.checker import Checker
from .sequence import frozen, offers, sequence

SPEC = PoolSpec(size=21, p=3, bits=4)


def check(checker: Checker, spec: PoolSpec) -> None:
    """Add the rules."""
    offers(checker)
    sequence(checker, spec, replays=True)
    if spec.lfsr:
        frozen(checker, spec.address_bits, 0)
