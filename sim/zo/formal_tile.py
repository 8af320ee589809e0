"""Rules of `tile`: one word out for each word in, whatever the generator beside them does."""

from __future__ import annotations

from ...golden.rng.pezo import PezoSpec
from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import UrngSpec
from ...golden.zo.tile import TileSpec
from ..formal.checker import Checker

SPEC = TileSpec(lanes=8, pezo=PezoSpec(scale=ScaleSpec(urng=UrngSpec(n=3, bits=4))))


def check(checker: Checker, spec: TileSpec) -> None:
    """Add the rules."""
    checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.in_order("i", "o", spec.latency, fields=("last",))
