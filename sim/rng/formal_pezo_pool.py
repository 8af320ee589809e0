"""Rules of `pezo` with a pool: as `pezo` on the fly, but marks and replays cost no cycle."""

from __future__ import annotations

from ...golden.rng.pezo import PezoSpec
from ...hw.rng.pezo import Pezo
from ..formal.checker import Checker
from . import formal_pezo, formal_pool


def part() -> Pezo:
    return Pezo(PezoSpec(strategy="pool", pool=formal_pool.SPEC))


def check(checker: Checker, part: Pezo) -> None:
    formal_pezo.check(checker, part.spec)
