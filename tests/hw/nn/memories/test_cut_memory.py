"""Cut memory: outputs of the stage before the cut are restored, both sides of a pass, when time allows."""

import numpy as np
import pytest

from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.memories.cut_memory import CutMemory, OwnRows

from ...memory import willing
from ...play import play_interface

MAPPING = Mapping.of(network_from("1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"), 16, 4)
PASSES, SIDES = 4, 2


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_outputs_are_restored_in_their_order(cut, stall):
    rows = MAPPING.stages[cut - 1].groups * MAPPING.stages[cut - 1].cells
    dut, rng = CutMemory(MAPPING, OwnRows(MAPPING, PASSES * SIDES * rows)), np.random.default_rng(6)
    columns, largest, expected = MAPPING.columns, 1 << len(dut.address), []

    def drawn():
        values = rng.integers(-(1 << 23), 1 << 23, columns).tolist()
        return int(rng.integers(1, 1 << columns)), int(rng.integers(largest)), values

    async def record(bench):
        """Outputs of all passes and sides, including other stages."""
        bench.set(recording=0)
        await bench.tick(3)
        bench.set(recording=1)
        sides = []
        for _ in range(PASSES * SIDES):
            sides.append([drawn() for _ in range(rows)])
            for final, outputs in ((0, [drawn()]), (1, sides[-1])):
                await bench.pulse("begin", final=final)
                for row in outputs:
                    await bench.pulse("write", **dict(zip(("mask", "address", "values"), row, strict=True)))
        await bench.tick(3)
        bench.set(recording=0)
        return sides

    async def restore(bench, sides, between):
        """Restore passes in sequence, each once the previous pass's sides are free."""
        await bench.pulse("restart")
        for number in range(PASSES):
            while not bench.get("restored"):
                await bench.tick()
            expected.extend(row for side in range(SIDES) for row in sides[SIDES * number + side])
            assert bench.seen.both("o_valid", "ready") == expected
            await bench.pulse("taken")
            assert not bench.get("restored")
            for _ in range(SIDES if number < PASSES - 1 else 0):
                await bench.pulse("free")
                await bench.tick(between - 1)
        await bench.tick(rows + 4)
        assert bench.seen.both("o_valid", "ready") == expected

    async def body(bench):
        bench.set(cut=cut)
        for _ in range(2):
            sides = await record(bench)
            for between in (1, rows + 9):
                await restore(bench, sides, between)

    watch = {"o_valid": ("o_mask", "o_address", "o_values"), "ready": None}
    play_interface(dut, watch=watch, body=body, background=[willing(dut.ready, stall)])
