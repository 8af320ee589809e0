"""Memory of a pass's sentences, and the division of a step into passes."""

from __future__ import annotations

from collections.abc import Sequence

from ...axi.bus import ADDRESS_BITS, BEAT
from ...memories.plan import MemoryShape
from ...zo.memory_layout import LABEL_BIT


def pass_memory(tokens: int, address: int = ADDRESS_BITS) -> MemoryShape:
    """Memory with an entry per sentence of a pass: first beat, first beat in the cache of the cut, tokens, label.

    Parameters
    ----------
    tokens : int
        Maximum number of tokens of a side, and therefore of sentences.
    address : int
        Bits of a byte address.
    """
    width = 2 * (address - (BEAT - 1).bit_length()) + tokens.bit_length() + 32 - LABEL_BIT
    return MemoryShape("sentences of a pass", tokens, width)


def passes_of(lengths: Sequence[int], capacity: int) -> list[range]:
    """Sentences of each pass of a step, in order: as many as fit with both sides.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each sentence.
    capacity : int
        Maximum number of tokens of a pass, both sides together.
    """
    passes, start, rows = [], 0, 0
    for number, length in enumerate(lengths):
        if 2 * (rows + length) > capacity and number > start:
            passes.append(range(start, number))
            start, rows = number, 0
        rows += length
    return [*passes, range(start, len(lengths))]
