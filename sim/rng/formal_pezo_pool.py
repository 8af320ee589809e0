"""Rules of `pezo` with a pool: as those of `pezo` on the fly, but a mark or a replay costs no cycle."""

from __future__ import annotations

from ...golden.rng.pezo import PezoSpec
from ...hw.rng.pezo import Pezo
from ..formal.checker import Checker
from . import formal_pezo, formal_pool


def part() -> Pezo:
    """Make the block with the pool of `formal_pool`."""
    return Pezo(PezoSpec(strategy="pool", pool=formal_pool.SPEC))


def check(checker: Checker, part: Pezo) -> None:
    """Add the rules."""
    formal_pezo.check(checker, part.spec)
