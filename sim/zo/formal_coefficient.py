"""Rules of `coefficient`: one output word and one accepted rate for each step."""

from __future__ import annotations

from ...golden.zo.coefficient import LARGEST_SHIFT, CoefficientSpec
from ..formal.checker import Checker
from ..formal.inside import probe_of

SPEC = CoefficientSpec()


def check(checker: Checker, spec: CoefficientSpec) -> None:
    """Steps may have any number of samples."""
    longest = spec.latency_of(LARGEST_SHIFT)
    rate = checker.streams["rate"]
    checker.assume(~rate.valid | (rate.payload.shift <= LARGEST_SHIFT))
    inside = probe_of(checker.block)
    checker.lemma("takes", inside.takes == inside.state("take"))
    ends = checker.moves("i") & checker.payload("i").last
    checker.balance("steps", [(ends, 1)], "o", 1)
    checker.balance("rates", [(checker.moves("rate"), 1)], "o", 1, drained=longest)
    checker.progress(longest)
