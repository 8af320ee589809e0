"""Whether a capture is golden's, but from another word on: the commonest reason why nothing agrees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..golden.block import Words

REACH = 64
"""Words at the beginning of a capture that may be none of golden's."""
PROOF_BITS = 64
"""Bits that must agree before a shift is believed: far more than the places that are tried."""

_PROBE = 8
_PLACES = 16


def find(golden: Words, got: Words, width: int, near: int = 0) -> tuple[int, int] | None:
    """Where all of a capture but its first words stands in golden.

    Parameters
    ----------
    golden, got : Words
        Of one stream; golden from its first word on.
    width : int
        Bits of a word.
    near : int
        Of several places the one closest to this golden word is taken.

    Returns
    -------
    tuple of int or None
        The first captured word that is golden's, at most `REACH`, and which of golden's it is.
    """
    ours = np.concatenate([golden[name] for name in golden], axis=1)
    theirs = np.concatenate([got[name] for name in golden], axis=1)
    # one number a word finds the places fast; the words themselves decide
    mixer = np.random.default_rng(0).integers(1 << 62, size=ours.shape[1]) | 1
    marks, seen = ours @ mixer, theirs @ mixer
    for first in range(min(REACH + 1, len(seen))):
        length = len(seen) - first
        if length * width < PROOF_BITS:
            break
        places = _places(marks, seen[first:])
        for place in sorted(places.tolist(), key=lambda start: abs(start - near))[:_PLACES]:
            if np.array_equal(ours[place : place + length], theirs[first:]):
                return first, place
    return None


def _places(marks: NDArray[np.int64], seen: NDArray[np.int64]) -> NDArray[np.intp]:
    """Starts at which the first few of these words follow each other."""
    places = np.flatnonzero(marks[: max(0, len(marks) - len(seen) + 1)] == seen[0])
    for step in range(1, min(_PROBE, len(seen))):
        places = places[marks[places + step] == seen[step]]
    return places
