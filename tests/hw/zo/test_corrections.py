"""Corrections of `sparse_add`: order, known facts of each correction's beat, beats and corrections at any pace."""

import pytest

from fabtune.golden.zo.sparse_add import SparseAddSpec
from fabtune.hw.zo.sparse_add import Corrections

from ..play import play_interface

LANES = 8
SPEC = SparseAddSpec(lanes=LANES, index_bits=8)


def corrections(packets):
    """Words of the stream; each value is the word's index in the stream."""
    words = [(index, at == len(packet) - 1) for packet in packets for at, index in enumerate(packet)]
    return [{"index": index, "value": number, "last": int(last)} for number, (index, last) in enumerate(words)]


def walked(packets, stall, seed=1):
    """Take corrections as `SparseAdd` does, a packet's beats in sequence; corrections of each beat, and the marks."""
    words, found = corrections(packets), []

    async def body(bench):
        packet = beat = 0
        while len(found) < len(words):
            while not bench.get("valid") or bench.rng.random() < stall:
                await bench.tick()
            if here := bench.get("here"):
                marks = tuple(bench.get(name) for name in ("lane", "value", "rising", "closing", "last"))
                found.append((packet, beat, *marks))
                *_, closing, last = marks
                # a packet ends with the beat of its last correction
                packet, beat = (packet + 1, 0) if last else (packet, beat + closing)
            else:
                beat += 1
            await bench.pulse("take" if here else "skip")

    play_interface(Corrections(SPEC), give={"i": words}, body=body, stall=stall, seed=seed)
    return found


PACKETS = [[0], [0, 1, 2, 7], [9, 17, 18, 200], [7, 8], [255], [0, 255], [1, 2, 16]]


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_each_correction_comes_with_its_beat(stall):
    wanted, number = [], 0
    for packet, indices in enumerate(PACKETS):
        for at, index in enumerate(indices):
            last = at == len(indices) - 1
            closing = last or indices[at + 1] // LANES > index // LANES
            wanted.append((packet, index // LANES, index % LANES, number, 1, int(closing), int(last)))
            number += 1
    assert walked(PACKETS, stall) == wanted


def test_an_index_that_does_not_rise_is_marked():
    rising = [one[4] for one in walked([[5, 5, 6, 4, 7], [2, 1]], 0.0)]
    assert rising == [1, 0, 1, 0, 1, 1, 0]
