"""Row loader: rows for both perturbation signs, equal or not, into either memory; surrounding data stays."""

import numpy as np
import pytest

from fabtune.golden.stream.memory.chunks import ChunkLayout, ValueAddress
from fabtune.hw.stream.memory.row_loader import RowLoader

from ...play import play_interface


@pytest.mark.parametrize(
    ("columns", "features", "wide", "alike", "stall"),
    [(4, 10, 0, 1, 0.0), (4, 4, 1, 0, 0.3), (8, 19, 0, 0, 0.3), (8, 3, 1, 1, 0.0)],
)
def test_rows_are_written(columns, features, wide, alike, stall):
    chunks, rng, rows, base, stride = ChunkLayout(16, columns, 256, 128), np.random.default_rng(features), 3, 20, 9
    dut, beats, expected = RowLoader(chunks, 16), [], []
    for row in range(rows):
        for sides in [(0, 1)] if alike else [(0,), (1,)]:
            values = rng.integers(-(1 << 26), 1 << 26, features)
            image = np.pad(values, (0, -features % 4)).astype("<i4").tobytes()
            beats += [int.from_bytes(image[at : at + 16], "little") for at in range(0, len(image), 16)]
            for group, chunk in enumerate(np.pad(values, (0, -features % columns)).reshape(-1, columns)):
                for side in sides:
                    place = chunks.chunk(ValueAddress(bool(wide), base), group, side * rows + row, stride)
                    expected.append((*map(int, place), chunk.tolist()))

    async def body(bench):
        settings = {"rows": rows, "row_beats": -(-features // 4), "alike": alike}
        settings |= {"wide": wide, "base": base, "stride": stride}
        for _ in range(2):
            await bench.pulse("start", **settings)
            await bench.until("done")

    async def given(bench):
        await bench.give("beats", 2 * beats)

    seen = play_interface(dut, take={"write": None}, body=[body, given], stall=stall)
    found = [(one["wide"], one["address"], one["part"], one["value"]) for one in seen.words("write")]
    assert found == 2 * expected
