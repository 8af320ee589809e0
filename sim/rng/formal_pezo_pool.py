"""Rules of `pezo` with a pool: those of `formal_pezo`, but marks and replays take no cycle."""

from __future__ import annotations

from ...golden.rng.pezo import PezoSpec
from . import formal_pezo, formal_pool

SPEC = PezoSpec(strategy="pool", pool=formal_pool.SPEC)
check = formal_pezo.check
