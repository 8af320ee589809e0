"""Rules of `pezo` with a pool: as `pezo` on the fly, but marks and replays cost no cycle."""

from __future__ import annotations

from ...golden.rng.pezo import PezoSpec
from . import formal_pezo, formal_pool

SPEC = PezoSpec(strategy="pool", pool=formal_pool.SPEC)
check = formal_pezo.check
