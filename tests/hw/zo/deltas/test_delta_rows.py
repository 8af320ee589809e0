"""Rows of deltas: random reads and writes interleaved with another component's, against two lists."""

import numpy as np
import pytest

from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.interfaces import CutRows
from fabtune.hw.zo.deltas.delta_rows import DeltaRows

from ...play import play_interface
from ...simulation import beats_of

MAPPING = Mapping.of(network_from("20 fc33 relu fc3"), 16, 4, False)
ROWS, WIDTH = 21, 7


def image_of(rows):
    """Beats of rows: each row begins on a new beat."""
    return beats_of(np.pad(rows, ((0, 0), (0, -WIDTH % 4))).astype("<i4"))


@pytest.mark.parametrize("others", [0, 9, 40], ids=["alone", "fewer rows", "more rows"])
def test_reads_and_writes(others):
    dut = DeltaRows(ROWS, WIDTH, shared=CutRows(MAPPING, others) if others else None)
    rng, bits = np.random.default_rng(others), len(dut.shared.data.as_value()) if others else 0
    rows, kept, other = rng.integers(-(1 << 31), 1 << 31, (ROWS, WIDTH)), {}, None

    def share(bench, write):
        """Write or read a row for the other component; the last row read."""
        at, content = int(rng.integers(others)), int.from_bytes(rng.bytes(64), "little") & ((1 << bits) - 1)
        store = not write and rng.random() < 0.5
        read = not write and not store and at in kept
        bench.set({"shared.address": at, "shared.write": store, "shared.read": read})
        bench.ctx.set(dut.shared.data.as_value(), content)
        kept.update({at: content} if store else {})
        return kept[at] if read else other

    async def body(bench):
        nonlocal other
        image = image_of(rows)
        await bench.give("load", image)
        assert bench.seen.cycles("load") == list(range(len(image))), "always ready"
        assert bench.seen.cycles("loaded") == [len(image) - 1]
        for _ in range(600):
            address, clear, write = int(rng.integers(ROWS)), rng.random() < 0.1, rng.random() < 0.4
            into, new = int(rng.integers(ROWS)), rng.integers(-(1 << 31), 1 << 31, WIDTH)
            bench.set(address=address, clear=clear, write=write, write_address=into, write_row=new)
            wanted = [0] * WIDTH if clear else rows[address].tolist()
            other = share(bench, write) if others else None
            await bench.tick()
            # a write is visible to reads from the next cycle
            if write:
                rows[into] = new
            assert bench.get("row") == wanted
            if other is not None:
                assert bench.ctx.get(dut.shared.row.as_value()) == other
        bench.set({"write": 0, "clear": 0} | ({"shared.write": 0} if others else {}))
        await bench.pulse("begin_save")
        bench.stall = 0.4
        beats = await bench.take("save", len(image))
        assert bench.seen.cycles("saved") == [bench.cycle]
        # unused after the last delta of a row
        saved = np.frombuffer(b"".join(beat.to_bytes(16, "little") for beat in beats), "<i4").reshape(ROWS, -1)
        assert saved[:, :WIDTH].tolist() == rows.tolist()
        assert not bench.get("save.valid")

    play_interface(dut, watch={"loaded": None, "saved": None}, body=body)
    assert len(kept) == others
