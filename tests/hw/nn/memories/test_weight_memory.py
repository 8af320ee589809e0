"""Weight memory: words read back as written by beats, one or several at once, with masks."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.nn.array.memories import parameter_memory
from fabtune.hw.nn.memories.weight_memory import WeightMemory

from ...play import play_interface
from ...simulation import beats_of

DEPTH, LANES, COLUMNS, VALUES = 5, 8, 4, 8


def memory_of(beats_per_write, depth=DEPTH, frozen=False, last_beats=0):
    """A memory, and whether it has segments of words, the last with these beats and one address."""
    planned = parameter_memory("words", depth, LANES, COLUMNS, beats_per_write, frozen)
    parts = (planned,)
    if last_beats:
        rest = replace(planned, width=planned.width - last_beats * 128, ultra=False)
        parts = (rest, replace(planned, width=last_beats * 128, one_address=True))
    return WeightMemory(parts, LANES, COLUMNS, beats_per_write), planned.count == 1


@pytest.mark.parametrize(
    ("beats_per_write", "frozen", "last_beats"),
    [(1, False, 0), (2, False, 0), (4, False, 0), (1, True, 0), (1, True, 1), (1, True, 3)],
)
def test_words_are_read_a_cycle_later(beats_per_write, frozen, last_beats):
    dut, whole = memory_of(beats_per_write, 33 if frozen else DEPTH, frozen, last_beats)
    assert whole == frozen
    beats = LANES * COLUMNS // VALUES
    words = np.random.default_rng(0).integers(-(1 << 15), 1 << 15, (DEPTH, LANES * COLUMNS))
    packed = np.reshape(np.array(beats_of(words.astype("<i2")), object), (DEPTH, beats))
    order = [*range(DEPTH), 2, 0]

    async def body(bench):
        bench.set(write=(1 << beats_per_write) - 1)
        for row in reversed(range(DEPTH)):
            for first in range(0, beats, beats_per_write):
                part = packed[row][first : first + beats_per_write]
                bench.set(index=row * beats + first, beats=sum(beat << 128 * at for at, beat in enumerate(part)))
                await bench.tick()
        bench.set(write=0, beats=0)
        await bench.tick()
        assert await bench.read("address", order, "word") == words[order].tolist()

    play_interface(dut, body=body)


def test_only_the_beats_of_the_mask_are_written():
    async def body(bench):
        for mask, value in ((0b11, 1), (0b10, 2), (0b01, 3)):
            bench.set(write=mask, index=4 * 1 + 2, beats=sum(value << 16 * at for at in range(16)))
            await bench.tick()
        bench.set(write=0)
        assert await bench.read("address", [1], "word") == [[0] * 16 + [3] * 8 + [2] * 8]

    play_interface(memory_of(2)[0], body=body)
