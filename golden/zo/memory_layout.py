"""Device memory of a zeroth-order job: regions and images of steps, generator states, deltas, records and logits.

Every image begins on a beat of 16 bytes, lowest byte first.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass

import numpy as np

from ..axi.bus import BEAT
from ..axi.regions import Bytes, Region
from ..fixed import Integers
from ..rng.generators import Generator
from .job import ZerothOrderStep

WORDS = BEAT // 4
"""Words of 32 bits in a beat."""
COUNT_BIT = 16
"""Lowest bit of the number of samples in a step's first word; the rate is below it."""
LABEL_BIT = 24
"""Lowest bit of the label in an entry of a step; the sample's index is below it."""


@dataclass(frozen=True)
class StepOrder:
    """One step of a job: indices and labels of its samples, (n,), and its rate in `coefficient.RATE`."""

    indices: Integers
    labels: Integers
    rate: int


class ZerothOrderLayout:
    """Regions of a zeroth-order core's commands, without its network.

    Only the length of `rows`, the rows of deltas, is used; `outputs` is the number of logits of a sample.
    """

    def __init__(self, rows: Sized, generator: Generator, outputs: int) -> None:
        self.rows, self.generator, self.outputs = rows, generator, outputs

    # -- sizes in beats --------------------------------------------------------------------------------------------

    @property
    def row_beats(self) -> int:
        """Beats of a row, 4 bytes per number."""
        return -(-self.generator.width // WORDS)

    @property
    def delta_beats(self) -> int:
        return len(self.rows) * self.row_beats

    @property
    def state_beats(self) -> int:
        return -(-self.generator.state_bits // (8 * BEAT))

    @property
    def logit_beats(self) -> int:
        """Beats of a sample's logits, 4 bytes each."""
        return -(-self.outputs // WORDS)

    @staticmethod
    def step_beats(batch: int) -> int:
        """Beats of a step in the sample schedule, for steps of at most `batch` samples."""
        return -(-(1 + batch) // WORDS)

    @staticmethod
    def record_beats(batch: int) -> int:
        """Beats of a projected gradient's record, for steps of at most `batch` samples."""
        return 1 + -(-batch // WORDS)

    # -- regions ---------------------------------------------------------------------------------------------------

    def order(self, steps: Sequence[StepOrder], batch: int) -> Region:
        """Sample schedule: for each step a word of rate and sample count, then an entry for each sample.

        Bits 15:0 of the first word are the rate, bits 23:16 the number of samples minus one. Bits 23:0 of an entry are
        the sample's index, bits 31:24 its label. Shorter steps are padded to `batch` samples.
        """
        words = np.zeros((len(steps), self.step_beats(batch) * WORDS), np.int64)
        for row, step in zip(words, steps, strict=True):
            row[0] = step.rate | (len(step.indices) - 1) << COUNT_BIT
            row[1 : 1 + len(step.indices)] = step.indices | step.labels << LABEL_BIT
        return Region.containing("order", words.astype("<u4").view(np.uint8))

    def state(self, position: int) -> Region:
        """Generator state at a position: bits in order of transmission, the first one lowest."""
        packed = np.packbits(self.generator.serial(position).astype(np.uint8), bitorder="little")
        return Region.containing("state", np.pad(packed, (0, self.state_beats * BEAT - packed.size)))

    def deltas(self, rows: Integers | None = None) -> Region:
        """Deltas of each row, (rows, n) in `deltas.DELTA`; by default space for the core to save its deltas."""
        if rows is None:
            return Region("deltas", self.delta_beats * BEAT)
        padded = np.pad(rows, ((0, 0), (0, self.row_beats * WORDS - rows.shape[1])))
        return Region.containing("deltas", np.ascontiguousarray(padded, "<i4").view(np.uint8))

    def records(self, slopes: int, batch: int) -> Region:
        """Space for the records of `slopes` projected gradients."""
        return Region("records", max(slopes, 1) * self.record_beats(batch) * BEAT)

    def logits(self, samples: int) -> Region:
        """Space for the logits of `samples` samples."""
        return Region("logits", max(samples, 1) * self.logit_beats * BEAT)

    # -- images that the core writes ---------------------------------------------------------------------------------

    def deltas_of(self, image: Bytes) -> Integers:
        """Deltas of an image, (rows, n)."""
        rows = image.view("<i4").reshape(len(self.rows), -1)
        return rows[:, : self.generator.width].astype(np.int64)

    def records_image(self, slopes: Sequence[ZerothOrderStep], batch: int) -> Bytes:
        """Image of records as the core writes it.

        Each record starts on a beat with a word for each sample: probabilities of its label, plus below minus, or an
        autoencoder's mean squared error. A last beat has position, coefficient and, in two words, the loss difference.
        """
        image = np.zeros((len(slopes), self.record_beats(batch) * WORDS), np.int64)
        for row, step in zip(image, slopes, strict=True):
            row[: len(step.words)] = step.words
            row[-WORDS:] = step.position, step.coefficient, step.difference & 0xFFFFFFFF, step.difference >> 32
        return image.astype("<u4").view(np.uint8).reshape(-1)

    def records_of(self, image: Bytes, sizes: Sequence[int], batch: int) -> list[ZerothOrderStep]:
        """Records of an image; `sizes` are the numbers of samples."""
        rows = image.view("<u4").reshape(-1, self.record_beats(batch) * WORDS).astype(np.int64)
        records = []
        for row, size in zip(rows, sizes, strict=True):
            position, coefficient, low, high = (int(word) for word in row[-WORDS:])
            step = ZerothOrderStep(position, _signed(coefficient, 32), _signed(high << 32 | low, 64), row[:size])
            records.append(step)
        return records

    def logits_image(self, logits: Integers) -> Bytes:
        """Image of logits, (samples, classes) in Q8.16, as the core writes it: each sample begins on a beat."""
        padded = np.pad(logits, ((0, 0), (0, self.logit_beats * WORDS - logits.shape[1])))
        return np.ascontiguousarray(padded, "<i4").view(np.uint8).reshape(-1)

    def logits_of(self, image: Bytes) -> Integers:
        """Logits of an image, (samples, classes) in Q8.16."""
        words = image.view("<i4").reshape(-1, self.logit_beats * WORDS)
        return words[:, : self.outputs].astype(np.int64)


def _signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)
