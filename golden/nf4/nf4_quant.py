"""`nf4_quant`: blocks of Q8.16 values to NF4, one code per cycle, in two passes.

Results are those of `codec.quantise`. A block's scale is known at its end: its values are stored in a circular buffer
while its fifteen thresholds are computed. The output of one block, the thresholds of the next one and the input of
later ones overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words
from ..errors import UserError
from ..fixed import Q8_16, Integers
from ..memories.plan import MemoryShape
from ..packets import last_flags, packets_of
from ..rng.urng import BIT
from .codec import quantise
from .nf4_dequant import CODE, SCALE


@dataclass(frozen=True, kw_only=True)
class Nf4QuantSpec(Spec):
    """Parameters and model of `nf4_quant`.

    Parameters
    ----------
    length : int
        Number of values of the longest block.
    """

    name: ClassVar[str] = "nf4_quant"
    summary: ClassVar[str] = "blocks of Q8.16 to NF4 codes and scales, by fifteen thresholds per block"
    turn: ClassVar[int] = 16
    """Cycles for a block's thresholds: in a steady stream a block of n values takes n cycles, and at least these."""
    preparation: ClassVar[int] = 24
    """Cycles between a block's last value and its first code."""
    waiting: ClassVar[int] = 16
    """Number of blocks that the FIFO before the thresholds stores."""

    length: int = 196

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.length <= 1 << 16:
            raise UserError(f"length = {self.length} is not in 1 to {1 << 16}")

    @property
    def address_bits(self) -> int:
        """Address width of the buffer, for the longest block and the values that arrive before an entry is free."""
        return (self.length + self.preparation - 4).bit_length()

    @property
    def value_memory(self) -> MemoryShape:
        """Values of blocks whose thresholds are not there yet."""
        return MemoryShape("values to quantise", 1 << self.address_bits, Q8_16.width)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Values of blocks."""
        return (self.value_memory,)

    def cycles(self, lengths: list[int]) -> int:
        """Cycles from the first value to the last code without stalls on either side."""
        depth = 1 << self.address_bits
        read: list[int] = []  # when each value leaves the memory
        leaves: list[int] = []  # when each block's end leaves the FIFO's memory
        free = derived = taken_over = begin = last = 0
        for number, length in enumerate(lengths):
            for entry in range(len(read), len(read) + length):
                # an entry is free in the cycle after its value has been read
                arrived = free if entry < depth else max(free, read[entry - depth] + 1)
                free = arrived + 1
            # the FIFO takes the block's end a cycle after its last value; until then the next block waits
            entered = free if number < self.waiting else max(free, leaves[number - self.waiting] + 1)
            free = entered
            leaves.append(max(entered + 1, derived))
            start = leaves[-1] + 1
            # from the fifth step on its thresholds need the registers of those of the block before
            held = max(taken_over - max(derived + 4, start), 0) if number else 0
            derived = start + self.turn - 1 + held
            begin = max(derived + 2, last)
            taken_over, last = begin + 2, begin + length
            read.extend(range(begin + 1, last + 1))
        return last + 5

    def streams(self) -> dict[str, Stream]:
        """Streams: `i` takes values, `o` gives codes with their block's scale; `last` ends a block on both."""
        return {
            "i": Stream("in", (Field("value", Q8_16), Field("last", BIT))),
            "o": Stream("out", (Field("code", CODE), Field("scale", SCALE), Field("last", BIT))),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Quantise all complete blocks."""
        values = inputs["i"]["value"][:, 0]
        columns: dict[str, list[Integers]] = {name: [np.empty((0, 1), np.int64)] for name in ("code", "scale", "last")}
        for start, end in packets_of(inputs["i"]["last"]):
            if end - start > self.length:
                raise UserError(f"a block of {end - start} values; the longest here is {self.length}")
            codes, scale = quantise(values[start:end])
            columns["code"].append(codes.astype(np.int64)[:, None])
            columns["scale"].append(np.full((end - start, 1), scale))
            columns["last"].append(last_flags([end - start]))
        return {"o": {name: np.concatenate(parts)[:words] for name, parts in columns.items()}}
