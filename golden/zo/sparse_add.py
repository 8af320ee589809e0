"""`sparse_add`: adds few corrections to a dense stream of weights (SparseAdd of sensitive-sparse ZO).

The paper stores the 0.1 % most sensitive weights of a tensor in 16 bits and all others in NF4, with the code for 0 at
sensitive positions; the sum is the tensor. A correction is an index and a Q4.12 value, sorted by index within a packet
(a tensor). Corrections are rare, so all lanes share one adder: each further correction of a beat stalls the dense
stream for a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, described, last_flags, packets_of, tag_fields
from ..errors import UserError
from ..fixed import Q4_12, Format, Integers, narrow
from ..rng.urng import BIT


@dataclass(frozen=True, kw_only=True)
class SparseAddSpec(Spec):
    """Parameters and model of `sparse_add`.

    Parameters
    ----------
    lanes : int
        Weights a beat: 8, 16, 32 or 64.
    index_bits : int
        Bits of an index, at most 32, for at least two beats: corrections reach the first ``2**index_bits`` weights of a
        packet.
    queue : int
        Corrections in the input FIFO: 4, 8, 16, 32 or 64.
    tag : int
        Bits that pass through with a beat unchanged, 0 to 32.
    """

    name: ClassVar[str] = "sparse_add"
    summary: ClassVar[str] = "sorted sparse corrections added to dense weight lanes in Q4.12, saturating"

    lanes: int = 32
    index_bits: int = 32
    queue: int = 16
    tag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes not in (8, 16, 32, 64):
            raise UserError(f"lanes = {self.lanes} is not 8, 16, 32 or 64")
        if not self.lane_bits < self.index_bits <= 32:
            raise UserError(
                f"index_bits = {self.index_bits} is not in {self.lane_bits + 1} to 32, with {self.lanes} lanes"
            )
        if self.queue not in (4, 8, 16, 32, 64):
            raise UserError(f"queue = {self.queue} is not 4, 8, 16, 32 or 64")
        tag_fields(self.tag)

    @property
    def lane_bits(self) -> int:
        """Low bits of an index that select the lane."""
        return self.lanes.bit_length() - 1

    @property
    def latency(self) -> int:
        """Cycles of a beat from input to output: sum, insertion into the lane."""
        return 2

    @property
    def lead(self) -> int:
        """Cycles from a correction's entry to the earliest entry of its beat: two for the FIFO, and two more."""
        return 4

    def streams(self) -> dict[str, Stream]:
        weight, last = Field("weight", Q4_12, self.lanes, doc="weight 0 in the lowest bits"), Field("last", BIT)
        index = Field(
            "index",
            Format(self.index_bits, 0, signed=False),
            doc="which weight of the packet, from 0; strictly rising within a packet",
        )
        return described(
            {
                "i": Stream(
                    "in",
                    (weight, last, *tag_fields(self.tag)),
                    doc="Beats of weights; `last` marks a packet's final one. `tag` only where it has bits.",
                ),
                "sparse": Stream(
                    "in",
                    (index, Field("value", Q4_12), last),
                    doc="Corrections of the same packet in ascending order of index, at least one a packet. `index` "
                    "counts weights from the packet's first.",
                ),
                "o": Stream(
                    "out",
                    (
                        weight,
                        last,
                        Field("error", BIT, doc="with a packet's last beat: a correction of this packet was dropped"),
                        *tag_fields(self.tag),
                    ),
                    doc="Corrected weights, saturated. `error` with `last`: a correction of the packet was out of "
                    "order or beyond its end, and was dropped.",
                ),
            },
            {
                "i.last": "last beat of a packet, a tensor",
                "sparse.last": "last one of a packet",
                "o.last": "as they came",
            },
        )

    # -- words from tensors ------------------------------------------------------------------------------------------

    def sparse_words(self, indices: Integers, values: Integers, weights: int) -> Words:
        """Words of `sparse` for one packet of `weights` weights; without corrections, one word that adds 0.

        Corrections are (k,) each, values in Q4.12. Raises `UserError` if indices do not ascend or are out of range, or
        a value is outside Q4.12.
        """
        if indices.shape != values.shape or indices.ndim != 1:
            raise UserError(f"indices {indices.shape} and values {values.shape} are not two vectors of equal length")
        wrong = np.flatnonzero(np.diff(indices) <= 0)
        if len(wrong):
            k = int(wrong[0]) + 1
            raise UserError(f"correction {k} has index {indices[k]}, not above the one before, {indices[k - 1]}")
        reach = min(weights, 1 << self.index_bits)
        if len(indices) and not 0 <= indices[0] <= indices[-1] < reach:
            raise UserError(f"an index is 0 to {reach - 1}; found {indices[0]} to {indices[-1]}")
        if len(values) and not Q4_12.minimum <= values.min() <= values.max() <= Q4_12.maximum:
            raise UserError(f"a correction in Q4.12 does not go from {values.min()} to {values.max()}")
        count = max(len(indices), 1)
        padded = np.zeros((2, count, 1), np.int64)
        padded[:, : len(indices), 0] = indices, values
        return {"index": padded[0], "value": padded[1], "last": last_flags([count])}

    # -- the model ---------------------------------------------------------------------------------------------------

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Beats of the packets that are complete in both streams.

        A correction with an index not above all earlier ones, or beyond the packet's end, is dropped; `error` is then
        set in the packet's last beat.
        """
        dense, sparse = inputs["i"], inputs["sparse"]
        weights, errors, done = dense["weight"].copy(), np.zeros_like(dense["last"]), 0
        for (start, end), (first, beyond) in self._pairs(dense["last"], sparse["last"]):
            index, value = sparse["index"][first:beyond, 0], sparse["value"][first:beyond, 0]
            valid = (index > _highest_before(index)) & (index < (end - start) * self.lanes)
            flat = weights[start:end].reshape(-1)
            flat[index[valid]] = narrow(flat[index[valid]] + value[valid], Q4_12, Q4_12)
            errors[end - 1] = not valid.all()
            done = end
        done = min(done, words)
        tag = {"tag": dense["tag"][:done]} if self.tag else {}
        return {"o": {"weight": weights[:done], "last": dense["last"][:done], "error": errors[:done]} | tag}

    def slots(self, inputs: dict[str, Words]) -> int:
        """Cycles of all beats: a cycle per beat, or a cycle for each of the beat's corrections.

        A dropped correction counts for the beat of the highest earlier index, or, beyond the packet, for the last beat.
        """
        total = 0
        for (start, end), (first, beyond) in self._pairs(inputs["i"]["last"], inputs["sparse"]["last"]):
            index = inputs["sparse"]["index"][first:beyond, 0]
            beat = np.maximum(index, _highest_before(index)) // self.lanes
            total += int(np.bincount(beat.clip(max=end - start - 1), minlength=end - start).clip(min=1).sum())
        return total

    def cycles(self, inputs: dict[str, Words]) -> int:
        """Cycles from the first input word of an idle block to its last output word, without stalls.

        After `lead`, corrections delay no beat by their arrival: at most one per cycle arrives, and at most one is
        used.
        """
        return self.lead + self.slots(inputs) + self.latency

    @staticmethod
    def _pairs(dense: Integers, sparse: Integers) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        return list(zip(packets_of(dense), packets_of(sparse), strict=False))


def _highest_before(index: Integers) -> Integers:
    """Highest earlier index for each index; -1 for the first."""
    return np.concatenate([[-1], np.maximum.accumulate(index)[:-1]])
