"""Find where a capture starts in the golden words: a wrong start is the most common cause of mismatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...golden.block import Words

REACH = 64
"""Largest number of captured words before the first golden word."""
PROOF_BITS = 64
"""Matching bits that an offset needs to be reported: far above the logarithm of the number of offsets."""
SHARE = 0.75
"""Fraction of words that must match; below 1, as a shifted capture may have faults too."""

_PROBE = 8
_PLACES = 16


@dataclass(frozen=True)
class Shift:
    """Position of a capture within the golden words.

    `start` is the index of the golden word at the first captured word, negative if the capture starts earlier. Of the
    `shared` words, `agree` are equal.
    """

    start: int
    agree: int
    shared: int


def find(golden: Words, got: Words, width: int, near: int) -> Shift | None:
    """Best offset of a capture within the golden words, if not `near`.

    Parameters
    ----------
    golden, got : Words
        Words of a stream; golden words from the first on.
    width : int
        Bits per word.
    near : int
        Assumed offset; of equally good offsets the closest to `near` wins.

    Returns
    -------
    Shift, optional
        None if the capture starts at `near`, or if too few bits match at every other offset.
    """
    ours = np.concatenate([golden[name] for name in golden], axis=1)
    theirs = np.concatenate([got[name] for name in golden], axis=1)
    # hashes of words find candidates fast, a comparison of the words decides
    mixer = np.random.default_rng(0).integers(1 << 62, size=ours.shape[1]) | 1
    marks, captured_marks = ours @ mixer, theirs @ mixer
    starts = {near}
    for first in range(min(REACH + 1, len(captured_marks))):
        places = _places(marks, captured_marks[first : first + _PROBE]) - first
        starts.update(sorted(places.tolist(), key=lambda start: abs(start - near))[:_PLACES])
    candidates = [_lay(ours, theirs, start) for start in sorted(starts, key=lambda start: (abs(start - near), start))]
    best = max(candidates, key=lambda shift: shift.agree)
    proven = best.agree * width >= PROOF_BITS and best.agree >= SHARE * best.shared
    return best if proven and best.start != near else None


def _places(marks: NDArray[np.int64], seen: NDArray[np.int64]) -> NDArray[np.intp]:
    """Indices of `marks` where the sequence `seen` occurs."""
    places = np.flatnonzero(marks[: max(0, len(marks) - len(seen) + 1)] == seen[0])
    for step in range(1, len(seen)):
        places = places[marks[places + step] == seen[step]]
    return places


def _lay(ours: NDArray[np.int64], theirs: NDArray[np.int64], start: int) -> Shift:
    ours, theirs = ours[max(0, start) :], theirs[max(0, -start) :]
    shared = min(len(ours), len(theirs))
    return Shift(start, int((ours[:shared] == theirs[:shared]).all(axis=1).sum()), shared)
