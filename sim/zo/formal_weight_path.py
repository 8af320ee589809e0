"""Rules of `weight_path`: an output beat for each input beat, and a word of numbers for each perturbed beat."""

from __future__ import annotations

from ...golden.zo.weight_path import WeightPathSpec
from ..formal.checker import Checker

SPEC = WeightPathSpec(lanes=8, index_bits=4, queue=4)
CUT = ("multipliers",)


def check(checker: Checker, spec: WeightPathSpec) -> None:
    """`formal_sparse_add` proves that corrections match their packets."""
    inside = spec.latency + 1
    checker.words("codes", "o", capacity=inside)
    perturbed = checker.moves("codes") & checker.payload("codes").sign[0]
    numbers = checker.streams["u"]
    checker.balance("numbers", [(perturbed, 1)], [(numbers.ready, checker.moves("u"), 1)], capacity=inside)
    checker.in_order("codes", "o", inside, fields=("last",))
    checker.progress(spec.latency + 2)
