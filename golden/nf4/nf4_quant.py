"""`nf4_quant`: blocks of Q8.16 values to NF4, one or two codes per cycle, in two passes.

Results match `codec.quantise`. A block's scale is known at the block's end: values wait in a circular buffer during the
computation of fifteen thresholds. Output of one block, thresholds of the next and input of later blocks overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, packets_of
from ..errors import UserError, check_range
from ..fixed import Q8_16, Integers
from ..memories.plan import MemoryShape
from ..rng.urng import BIT
from .codec import codes_of, quantise
from .nf4_dequant import CODE, SCALE


@dataclass(frozen=True, kw_only=True)
class Nf4QuantSpec(Spec):
    """Parameters and model of `nf4_quant`.

    Parameters
    ----------
    length : int
        Values of the longest block, 1 to 65,536; LeNet-5 needs 196.
    values : int
        Values a cycle, 1 or 2; with 2 the last word of a block of odd length has one value.
    """

    name: ClassVar[str] = "nf4_quant"
    summary: ClassVar[str] = "blocks of Q8.16 to NF4 codes and scales, by fifteen thresholds per block"
    turn: ClassVar[int] = 16
    """Cycles for a block's thresholds: in a steady stream a block takes a cycle per word, and at least 16."""
    preparation: ClassVar[int] = 24
    """Cycles between a block's last word and its first codes."""
    waiting: ClassVar[int] = 16
    """Blocks in the FIFO before the thresholds."""

    length: int = 196
    values: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("length", self.length, 1, 1 << 16)
        if self.values not in (1, 2):
            raise UserError(f"values = {self.values}: give 1 or 2")

    @property
    def address_bits(self) -> int:
        """Address width of the buffer, for the longest block and the words that arrive before an entry is free."""
        return (self.words(self.length) + self.preparation - 4).bit_length()

    @property
    def value_memory(self) -> MemoryShape:
        """Words of blocks without thresholds yet."""
        return MemoryShape("values to quantise", 1 << self.address_bits, self.values * Q8_16.width)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (self.value_memory,)

    def words(self, length: int) -> int:
        return -(-length // self.values)

    def cycles(self, lengths: list[int]) -> int:
        """Cycles from the first word to the last word's codes, without stalls; `lengths` are in values."""
        depth = 1 << self.address_bits
        read: list[int] = []  # cycle of each word's read
        leaves: list[int] = []  # cycle in which each block's end leaves the FIFO's memory
        free = derived = taken_over = begin = last = 0
        for number, length in enumerate(map(self.words, lengths)):
            for entry in range(len(read), len(read) + length):
                # an entry is free in the cycle after its word's read
                arrived = free if entry < depth else max(free, read[entry - depth] + 1)
                free = arrived + 1
            # the FIFO takes the block's end a cycle after its last word; until then the next block waits
            entered = free if number < self.waiting else max(free, leaves[number - self.waiting] + 1)
            free = entered
            leaves.append(max(entered + 1, derived))
            start = leaves[-1] + 1
            # from the fifth step on, thresholds need the registers of the previous block's thresholds
            held = max(taken_over - max(derived + 4, start), 0) if number else 0
            derived = start + self.turn - 1 + held
            begin = max(derived + 2, last)
            taken_over, last = begin + 2, begin + length
            read.extend(range(begin + 1, last + 1))
        return last + 5

    def streams(self) -> dict[str, Stream]:
        """Streams: `i` takes values, `o` gives codes with their block's scale; `last` ends a block on both.

        With two values per word, `single` marks a last word without a second value.
        """
        single = (Field("single", BIT),) if self.values == 2 else ()
        return {
            "i": Stream(
                "in",
                (Field("value", Q8_16, self.values), *single, Field("last", BIT)),
                doc="Values of a block; `last` marks the final word, of which with `single` the second value does "
                "not count.",
            ),
            "o": Stream(
                "out",
                (Field("code", CODE, self.values), *single, Field("scale", SCALE), Field("last", BIT)),
                doc="Codes of the same block in order, each with the block's largest magnitude.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Codes and scales of all complete blocks; an unused second value has a code, too.

        Raises `UserError` if a block is longer than `length`.
        """
        fields = inputs["i"]
        results: dict[str, list[Integers]] = {
            name: [np.empty((0, lanes), np.int64)] for name, lanes in (("code", self.values), ("scale", 1))
        }
        ends = packets_of(fields["last"])
        for start, end in ends:
            block = fields["value"][start:end]
            counts = block.size - (int(fields["single"][end - 1, 0]) if self.values == 2 else 0)
            if counts > self.length:
                raise UserError(f"a block of {counts} values; the longest here is {self.length}")
            scale = quantise(block.reshape(-1)[:counts])[1]
            results["code"].append(codes_of(block, scale).astype(np.int64))
            results["scale"].append(np.full((end - start, 1), scale))
        whole = ends[-1][1] if ends else 0
        passed = {name: fields[name][:whole] for name in ("single", "last") if name in fields}
        outputs = {name: np.concatenate(parts) for name, parts in results.items()} | passed
        return {"o": {name: column[:words] for name, column in outputs.items()}}
