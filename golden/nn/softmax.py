"""Softmax from two tables, without divider: the maximum is subtracted, the sum normalised to 1 to 2.

Both tables fit one block RAM each; so does InstantFT (section 4.1, after Duarte et al., 2018).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..block import Field, Phase, Spec, Stream, Words
from ..errors import UserError
from ..fixed import Q4_12, Q8_16, Format, Integers, narrow
from ..packets import last_flags, packets_of, random_lengths
from ..rng.urng import BIT

DISTANCE = Format(4, 7, signed=False)


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Parameters and model.

    Parameters
    ----------
    distance : Format
        In which the distance of a logit from the largest addresses the exponential's table.
    mantissa : int
        Bits behind the leading one of the sum that address the reciprocal's table.
    """

    distance: Format = DISTANCE
    mantissa: int = 10

    exponential_format = Format(1, 17, signed=False)
    reciprocal_format = Format(1, 16, signed=False)

    @cached_property
    def exponentials(self) -> Integers:
        """exp(-i / 2**7), U1.17; the last entry, where larger distances end, is 0."""
        distances = self.distance.to_float(np.arange(self.distance.maximum + 1))
        return self.exponential_format.from_float(np.where(distances < distances[-1], np.exp(-distances), 0.0))

    @cached_property
    def reciprocals(self) -> Integers:
        """1 / (1 + i / 2**10), U1.16."""
        entries = np.arange(1 << self.mantissa)
        return self.reciprocal_format.from_float(1 / (1 + np.ldexp(entries, -self.mantissa)))

    def probabilities(self, logits: Integers) -> Integers:
        """Softmax of logits.

        Parameters
        ----------
        logits : array of int, (n, classes)
            Q8.16.

        Returns
        -------
        array of int64, (n, classes)
            Q4.12. A row's sum is 1 to within 0.1 % and a rounding for each class.
        """
        distances = logits.max(axis=1, keepdims=True) - logits
        terms = self.exponentials[narrow(distances, Q8_16, self.distance)]
        total = terms.sum(axis=1, keepdims=True)
        # the largest logit's own term is 1.0, so the sum is at least 1.0
        one = self.exponential_format.fraction
        octave = np.frexp(total.astype(np.float64))[1].astype(np.int64) - 1 - one
        top = int(octave.max(initial=0))
        behind = (total - (1 << (one + octave))) << (top - octave)
        inverse = self.reciprocals[narrow(behind, one + top, Format(0, self.mantissa, signed=False))]
        product = (terms * inverse) << (top - octave)
        return narrow(product, one + self.reciprocal_format.fraction + top, Q4_12)

    def gradient(self, logits: Integers, labels: Integers) -> Integers:
        """Gradient of each sample's cross entropy with respect to its logits, Q4.12: probability - (1 if the label)."""
        result = self.probabilities(logits)
        result[np.arange(len(labels)), labels] -= 1 << Q4_12.fraction
        return result


LARGEST_SAMPLE = 256
"""Classes at most: a label has eight bits."""
EDGES = ((0, 1, 622), (0, 1013), (0, 1152), (0, 976))
"""Samples by their distances in the table's steps.

A sum whose mantissa saturates; probabilities of 1.5 and of 0.5 last places; a mantissa of half a last place.
"""


@dataclass(frozen=True, kw_only=True)
class SoftmaxSpec(Spec):
    """Parameters and model of the block `softmax`, which computes `Softmax().probabilities` sample by sample.

    Parameters
    ----------
    classes : int
        Logits of the longest sample.
    """

    name: ClassVar[str] = "softmax"
    summary: ClassVar[str] = "softmax of a sample's logits, one a cycle, from two tables in block RAM"

    classes: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.classes <= LARGEST_SAMPLE:
            raise UserError(f"classes = {self.classes} is not in 1 to {LARGEST_SAMPLE}")

    @cached_property
    def tables(self) -> Softmax:
        """The model without the block."""
        return Softmax()

    @property
    def octaves(self) -> int:
        """The largest sum's: the sum lies between 1 and `classes`."""
        return self.classes.bit_length() - 1

    def period(self, length: int) -> int:
        """Cycles from a sample's first logit to the next sample's."""
        return 3 * length + 5 + self.octaves

    @property
    def drain(self) -> int:
        """Cycles from when the next sample may begin to the sample's last probability."""
        return 5

    def streams(self) -> dict[str, Stream]:
        """`i` takes logits, `o` gives probabilities; `last` ends a sample on both."""
        return {
            "i": Stream("in", (Field("logit", Q8_16), Field("last", BIT))),
            "o": Stream("out", (Field("probability", Q4_12), Field("last", BIT))),
        }

    def stimulus(self, rng: np.random.Generator, words: int) -> dict[str, Words]:
        """Samples of all lengths: spread widely and narrowly, equal, at both ends, ties of every rounding."""
        lengths = random_lengths(rng, words, self.classes)
        samples = [self._sample(rng, length, kind % 7) for kind, length in enumerate(lengths)]
        return {"i": {"logit": np.concatenate(samples)[:, None], "last": last_flags(lengths)}}

    def _sample(self, rng: np.random.Generator, length: int, kind: int) -> Integers:
        if kind == 0:
            return Q8_16.from_float(rng.normal(0, 3, length))
        if kind == 1:
            return Q8_16.from_float(rng.normal(0, 0.2, length))
        if kind == 2:  # close by the last distance that the table knows, and beyond
            far = (self.tables.distance.maximum << 9) + rng.integers(-1024, 1024, length)
            return np.where(rng.random(length) < 0.4, 0, -far)
        if kind == 3:
            return np.full(length, rng.integers(Q8_16.minimum, Q8_16.maximum, endpoint=True))
        if kind == 4:
            return rng.choice([Q8_16.minimum, Q8_16.maximum, 0], length)
        if kind == 5:
            steps = np.full(length, self.tables.distance.maximum)
            edge = EDGES[int(rng.integers(len(EDGES)))][:length]
            steps[: len(edge)] = edge
            return -rng.permutation(steps) << 9
        return rng.integers(-300, 300, length) << 8  # half of these distances are ties

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Sample by sample; one that has no last logit yet gives nothing."""
        logits = inputs["i"]["logit"][:, 0]
        found, flags = [np.empty(0, np.int64)], [np.empty((0, 1), np.int64)]
        for start, end in packets_of(inputs["i"]["last"]):
            if end - start > self.classes:
                raise UserError(f"a sample of {end - start} logits; this softmax takes {self.classes}")
            found.append(self.tables.probabilities(logits[None, start:end])[0])
            flags.append(last_flags([end - start]))
        result = {"probability": np.concatenate(found)[:, None], "last": np.concatenate(flags)}
        return {"o": {name: column[:words] for name, column in result.items()}}

    def scenario(self, rng: np.random.Generator, words: int) -> list[Phase]:
        """Two jobs of whole samples; the first one's cycles are the sum of its samples' periods."""
        first, second = super().scenario(rng, words)
        lengths = [end - start for start, end in packets_of(first.inputs["i"]["last"])]
        return [replace(first, cycles=sum(map(self.period, lengths)) + self.drain), second]

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Both tables."""
        tables = self.tables
        return {
            "exponentials": (tables.exponentials.tolist(), tables.exponential_format.width),
            "reciprocals": (tables.reciprocals.tolist(), tables.reciprocal_format.width),
        }
