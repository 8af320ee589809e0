"""Rules of `sparse_add`: one beat out for each beat in, in order of the packets' ends, and no correction left over."""

from __future__ import annotations

from ...golden.zo.sparse_add import SparseAddSpec
from ..formal.checker import Checker

SPEC = SparseAddSpec(lanes=8, index_bits=5, queue=4, tag=1)


def check(checker: Checker, spec: SparseAddSpec) -> None:
    """Add the rules.

    Nothing is assumed of the order of indices, or of how many corrections a packet has. The corrections of a third
    packet are assumed to wait until the first packet has left: without a limit the engine finds no proof in its time.
    """
    checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.words("i", "o", capacity=spec.latency, only="last")
    # the FIFO with its output register, the two registers behind it, and the beat's own
    inside = spec.queue + 1 + 2
    owed = checker.words("sparse", "o", capacity=inside + spec.latency, only="last", name="packets")
    checker.assume(~(checker.streams["sparse"].valid & (owed > 1)))
    checker.in_order("i", "o", spec.latency, fields=("last", "tag"))
    checker.progress(spec.lead + 1)
