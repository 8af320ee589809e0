"""Corrections of `sparse_add`: order, what is known of each one's beat, with beats and corrections at any pace."""

import numpy as np
import pytest

from fabtune.golden.zo.sparse_add import SparseAddSpec
from fabtune.hw.zo.sparse_add import Corrections

from ..play import simulate

LANES = 8
SPEC = SparseAddSpec(lanes=LANES, index_bits=8)


def corrections(packets):
    """Words of the stream; the value of each is its place in the stream."""
    words = [(index, at == len(packet) - 1) for packet in packets for at, index in enumerate(packet)]
    return [{"index": index, "value": number, "last": int(last)} for number, (index, last) in enumerate(words)]


def walked(packets, stall, seed=1):
    """Take corrections as `SparseAdd` does, a packet's beats one after another; those of each beat, and the marks."""
    dut, rng = Corrections(SPEC), np.random.default_rng(seed)
    words, seen = corrections(packets), []

    async def bench(ctx):
        left, valid, packet, beat = list(words), False, 0, 0
        for _ in range(3000):
            if left and not valid and rng.random() >= stall:
                valid = True
                ctx.set(dut.i.payload, left[0])
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.take, 0)
            ctx.set(dut.skip, 0)
            if ctx.get(dut.valid) and rng.random() >= stall:
                here = ctx.get(dut.here)
                ctx.set(dut.take if here else dut.skip, 1)
                if here:
                    marks = tuple(
                        ctx.get(getattr(dut, name)) for name in ("lane", "value", "rising", "closing", "last")
                    )
                    seen.append((packet, beat, *marks))
                    if marks[-1]:
                        packet, beat = packet + 1, -1  # the packet ends with its last correction's beat here
                    if marks[-2]:
                        beat += 1
                else:
                    beat += 1
            ready = (await ctx.tick().sample(dut.i.ready))[2]
            if valid and ready:
                left.pop(0)
                valid = False
            if len(seen) == len(words):
                return
        raise AssertionError(f"{len(seen)} of {len(words)} corrections")

    simulate(dut, bench)
    return seen


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
    assert walked(PACKETS, stall, simulate) == wanted


def test_an_index_that_does_not_rise_is_marked():
    rising = [one[4] for one in walked([[5, 5, 6, 4, 7], [2, 1]], 0.0, simulate)]
    assert rising == [1, 0, 1, 0, 1, 1, 0]
