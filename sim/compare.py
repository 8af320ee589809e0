"""Holding words against golden: of a simulation, a logic analyser or a memory dump alike."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..golden.block import Words


@dataclass
class Comparison:
    """How much of a capture agrees.

    Parameters
    ----------
    compared, mismatches : int
        Numbers held against golden and those that differ; a missing or surplus word counts with all its lanes.
    differences : list of str
        The first differences, in words.
    """

    compared: int = 0
    mismatches: int = 0
    differences: list[str] = field(default_factory=list)

    LIMIT = 8

    def add(self, where: str, expected: Words, got: Words) -> None:
        """Compare one stream's words, field by field."""
        for name, want in expected.items():
            have = got.get(name, np.empty((0, want.shape[1]), np.int64))
            shared = min(len(want), len(have))
            self.compared += max(len(want), len(have)) * want.shape[1]
            self.mismatches += abs(len(want) - len(have)) * want.shape[1]
            if len(want) != len(have):
                self._note(f"{where}.{name}: {len(have)} words, golden has {len(want)}")
            words, lanes = np.nonzero(want[:shared] != have[:shared])
            self.mismatches += len(words)
            for word, lane in zip(words[: self.LIMIT].tolist(), lanes[: self.LIMIT].tolist(), strict=True):
                self._note(f"{where}.{name}[{lane}] word {word}: {have[word, lane]}, golden {want[word, lane]}")

    def _note(self, difference: str) -> None:
        if len(self.differences) < self.LIMIT:
            self.differences.append(difference)
