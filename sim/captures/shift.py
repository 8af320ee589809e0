"""Find the shift of a capture that starts at another word than assumed, the commonest reason for mismatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...golden.block import Words

REACH = 64
"""Words at the beginning of a capture that may come from before golden's first."""
PROOF_BITS = 64
"""Bits that must agree before a shift is reported: far more than the logarithm of the number of places tried."""
SHARE = 0.75
"""Part of the words that must agree: a shifted capture may have faults of its own."""

_PROBE = 8
_PLACES = 16


@dataclass(frozen=True)
class Shift:
    """Position of a capture in golden's words.

    Parameters
    ----------
    start : int
        Golden's word at the first captured one; negative if that came before golden's first.
    agree, shared : int
        Words that are equal, of those that golden has as well.
    """

    start: int
    agree: int
    shared: int


def find(golden: Words, got: Words, width: int, near: int) -> Shift | None:
    """Find where a capture starts in golden's words, if not where it is taken to start.

    Parameters
    ----------
    golden, got : Words
        Words of one stream; golden's from its first word on.
    width : int
        Bits in a word.
    near : int
        Golden's word at which the capture is taken to start; of equally good places the closest is chosen.

    Returns
    -------
    Shift, optional
        None where the capture starts at `near`, or where too few bits agree anywhere else.
    """
    ours = np.concatenate([golden[name] for name in golden], axis=1)
    theirs = np.concatenate([got[name] for name in golden], axis=1)
    # one number a word finds the places fast; the words themselves decide
    mixer = np.random.default_rng(0).integers(1 << 62, size=ours.shape[1]) | 1
    marks, seen = ours @ mixer, theirs @ mixer
    starts = {near}
    for first in range(min(REACH + 1, len(seen))):
        places = _places(marks, seen[first : first + _PROBE]) - first
        starts.update(sorted(places.tolist(), key=lambda start: abs(start - near))[:_PLACES])
    found = [_lay(ours, theirs, start) for start in sorted(starts, key=lambda start: (abs(start - near), start))]
    best = max(found, key=lambda shift: shift.agree)
    proven = best.agree * width >= PROOF_BITS and best.agree >= SHARE * best.shared
    return best if proven and best.start != near else None


def _places(marks: NDArray[np.int64], seen: NDArray[np.int64]) -> NDArray[np.intp]:
    """Indices of `marks` from which the words of `seen` follow each other."""
    places = np.flatnonzero(marks[: max(0, len(marks) - len(seen) + 1)] == seen[0])
    for step in range(1, len(seen)):
        places = places[marks[places + step] == seen[step]]
    return places


def _lay(ours: NDArray[np.int64], theirs: NDArray[np.int64], start: int) -> Shift:
    ours, theirs = ours[max(0, start) :], theirs[max(0, -start) :]
    shared = min(len(ours), len(theirs))
    return Shift(start, int((ours[:shared] == theirs[:shared]).all(axis=1).sum()), shared)
