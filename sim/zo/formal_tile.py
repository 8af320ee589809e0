"""Rules of `tile`: an output word for each input word, whatever the generator does."""

from __future__ import annotations

from ...golden.rng.pezo import PezoSpec
from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import UrngSpec
from ...golden.zo.tile import TileSpec
from ..formal.checker import Checker

SPEC = TileSpec(lanes=8, pezo=PezoSpec(scale=ScaleSpec(urng=UrngSpec(n=3, bits=4))))


def check(checker: Checker, spec: TileSpec) -> None:
    checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.in_order("i", "o", spec.latency, fields=("last",))
