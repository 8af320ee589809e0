"""Rows of deltas: random reads and writes beside those of another component, against two lists."""

import numpy as np
import pytest

from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.interfaces import CutRows
from fabtune.hw.zo.deltas.delta_rows import DeltaRows

MAPPING = Mapping.of(network_from("20 fc33 relu fc3"), 16, 4, False)
ROWS, WIDTH = 21, 7


@pytest.mark.parametrize("others", [0, 9, 40], ids=["alone", "fewer rows", "more rows"])
def test_reads_and_writes(others, play):
    shared = CutRows(MAPPING, others) if others else None
    dut, rng = DeltaRows(ROWS, WIDTH, shared=shared), np.random.default_rng(others)
    bits = len(dut.shared.data.as_value()) if others else 0
    kept: dict[int, int] = {}

    def drawn():
        return [int(one) for one in rng.integers(-(1 << 31), 1 << 31, WIDTH)]

    def word():
        return int.from_bytes(rng.bytes(64), "little") & ((1 << bits) - 1)

    async def body(ctx):
        rows = [drawn() for _ in range(ROWS)]
        for number, row in enumerate(rows):
            for beat in range(dut.row_beats):
                own = np.array(row[4 * beat : 4 * beat + 4], "<i4").tobytes()
                ctx.set(dut.load.payload, int.from_bytes(own, "little"))
                ctx.set(dut.load.valid, 1)
                last = number == ROWS - 1 and beat == dut.row_beats - 1
                assert (ctx.get(dut.load.ready), ctx.get(dut.loaded)) == (1, last)
                await ctx.tick()
        ctx.set(dut.load.valid, 0)
        wanted, other = None, None
        for _ in range(600):
            address, clear, write = int(rng.integers(ROWS)), rng.random() < 0.1, rng.random() < 0.4
            into, new = int(rng.integers(ROWS)), drawn()
            found = [0] * WIDTH if clear else rows[address]
            values = {"address": address, "clear": clear, "write": write, "write_address": into}
            for name, value in values.items():
                ctx.set(getattr(dut, name), int(value))
            ctx.set(dut.write_row, new)
            follows = other
            if others:
                at, content = int(rng.integers(others)), word()
                store = not write and rng.random() < 0.5
                read = not write and not store and at in kept
                ctx.set(dut.shared.address, at)
                ctx.set(dut.shared.data.as_value(), content)
                ctx.set(dut.shared.write, int(store))
                ctx.set(dut.shared.read, int(read))
                if store:
                    kept[at] = content
                if read:
                    follows = kept[at]
            await ctx.tick()
            # what is written in a cycle is read from the next one on
            if write:
                rows[into] = new
            wanted, other = found, follows
            assert [ctx.get(dut.row[j]) for j in range(WIDTH)] == wanted
            if other is not None:
                assert ctx.get(dut.shared.row.as_value()) == other
        for name in ("write", "clear"):
            ctx.set(getattr(dut, name), 0)
        if others:
            ctx.set(dut.shared.write, 0)
        ctx.set(dut.begin_save, 1)
        await ctx.tick()
        ctx.set(dut.begin_save, 0)
        beats, ended = [], False
        while not ended:
            ctx.set(dut.save.ready, int(rng.random() < 0.6))
            if ctx.get(dut.save.valid) and ctx.get(dut.save.ready):
                beats.append(ctx.get(dut.save.payload).to_bytes(16, "little"))
                ended = bool(ctx.get(dut.saved))
            await ctx.tick()
        saved = np.frombuffer(b"".join(beats), "<i4").reshape(ROWS, -1)[:, :WIDTH]
        assert saved.tolist() == rows
        assert not ctx.get(dut.save.valid)

    play(dut, body)
    assert len(kept) == others
