"""`sparse_add`: a few corrections added to a dense stream of weights on its way (sensitive-sparse ZO, its SparseAdd).

The paper keeps the 0.1 % of a tensor's weights to which the loss is most sensitive in 16 bits and the rest in NF4,
where those have the code for 0; added together they are the tensor again. A correction is an index and a Q4.12 value;
those of a packet, a tensor, come in the order of their indices. The hardware has one adder for all lanes, as
corrections are rare: a second one in the same beat waits for a cycle, and the dense stream with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, tag_fields
from ..errors import UserError
from ..fixed import Q4_12, Format, Integers, narrow
from ..packets import last_flags, packets_of
from ..rng.urng import BIT


@dataclass(frozen=True, kw_only=True)
class SparseAddSpec(Spec):
    """Parameters and model of `sparse_add`.

    Parameters
    ----------
    lanes : int
        Weights a beat: 8, 16, 32 or 64.
    index_bits : int
        Bits of an index: a packet has up to ``2**index_bits`` weights that a correction can reach.
    queue : int
        Corrections that wait in front, a power of two.
    tag : int
        Bits that travel with a beat unchanged.
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
        """Bits of an index that name the lane."""
        return self.lanes.bit_length() - 1

    @property
    def latency(self) -> int:
        """Of a beat: the sum beside it, the sum in its lane."""
        return 2

    @property
    def lead(self) -> int:
        """Cycles from a correction's entry to the first in which its beat can enter: the queue's two, and two more."""
        return 4

    def streams(self) -> dict[str, Stream]:
        """`i` takes beats, `sparse` corrections, at least one word a packet; `o` gives beats."""
        weight, last = Field("weight", Q4_12, self.lanes), Field("last", BIT)
        index = Field("index", Format(self.index_bits, 0, signed=False))
        return {
            "i": Stream("in", (weight, last, *tag_fields(self.tag))),
            "sparse": Stream("in", (index, Field("value", Q4_12), last)),
            "o": Stream("out", (weight, last, Field("error", BIT), *tag_fields(self.tag))),
        }

    # -- the door ----------------------------------------------------------------------------------------------------

    def sparse_words(self, indices: Integers, values: Integers, weights: int) -> Words:
        """Words of `sparse` for one packet; without corrections it is one that adds nothing.

        Parameters
        ----------
        indices, values : array of int, (k,)
            Corrections, Q4.12, in the order of their indices.
        weights : int
            How many weights the packet has.

        Raises
        ------
        UserError
            If an index is not above the one before or names no weight, or a value is no Q4.12 integer.
        """
        if indices.shape != values.shape or indices.ndim != 1:
            raise UserError(f"indices {indices.shape} and values {values.shape} are not one each in a row")
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
        """Packet by packet, those that are whole in both streams.

        A correction whose index is not above all those before it in its packet, or beyond the packet's end, is dropped,
        and the packet's last beat says so.
        """
        given, sparse = inputs["i"], inputs["sparse"]
        weights, errors, done = given["weight"].copy(), np.zeros_like(given["last"]), 0
        for (start, end), (first, beyond) in self._pairs(given["last"], sparse["last"]):
            index, value = sparse["index"][first:beyond, 0], sparse["value"][first:beyond, 0]
            kept = (index > _highest_before(index)) & (index < (end - start) * self.lanes)
            flat = weights[start:end].reshape(-1)
            flat[index[kept]] = narrow(flat[index[kept]] + value[kept], Q4_12, Q4_12)
            errors[end - 1] = not kept.all()
            done = end
        done = min(done, words)
        tag = {"tag": given["tag"][:done]} if self.tag else {}
        return {"o": {"weight": weights[:done], "last": given["last"][:done], "error": errors[:done]} | tag}

    def slots(self, inputs: dict[str, Words]) -> int:
        """Cycles that the beats take: one each, or as many as there are corrections in it.

        A dropped correction counts with the highest before it, and one beyond the packet with the last beat.
        """
        total = 0
        for (start, end), (first, beyond) in self._pairs(inputs["i"]["last"], inputs["sparse"]["last"]):
            index = inputs["sparse"]["index"][first:beyond, 0]
            place = np.maximum(index, _highest_before(index)) // self.lanes
            total += int(np.bincount(place.clip(max=end - start - 1), minlength=end - start).clip(min=1).sum())
        return total

    def cycles(self, inputs: dict[str, Words]) -> int:
        """Cycles from the entry of an idle block's first word to the exit of its last, at full speed.

        Corrections enter before they are needed from then on: one a cycle comes, at most one a cycle is used.
        """
        return self.lead + self.slots(inputs) + self.latency

    @staticmethod
    def _pairs(dense: Integers, sparse: Integers) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        return list(zip(packets_of(dense), packets_of(sparse), strict=False))


def _highest_before(index: Integers) -> Integers:
    """The highest index before each one; before the first, one that is below all."""
    return np.concatenate([[-1], np.maximum.accumulate(index)[:-1]])
