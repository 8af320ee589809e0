"""`tile_array` compared with Python integers, also at format limits; rows without a tile; refusals."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16
from fabtune.golden.stream.array.tile_array import LANES_LIMIT, Q4_14, SUM, TileArraySpec


def sums(spec, tiles, rows, swap, words=100):
    """Sums of rows with tiles of lanes x columns."""
    given = {"w": {"weight": np.array(tiles)}, "x": {"value": np.array(rows), "swap": np.array(swap)[:, None]}}
    return spec.run(given, words)["o"]["sum"].tolist()


def test_each_row_is_multiplied_by_its_tile():
    rng, spec = np.random.default_rng(0), TileArraySpec(lanes=6, columns=3)
    tiles = rng.integers(Q4_14.minimum, Q4_14.maximum, (3, 6, 3), endpoint=True)
    rows = rng.integers(Q8_16.minimum, Q8_16.maximum, (6, 6), endpoint=True)
    expected = [
        [sum(int(x) * int(w) for x, w in zip(row, tiles[tile, :, column], strict=True)) for column in range(3)]
        for row, tile in zip(rows, (0, 0, 1, 2, 2, 2), strict=True)
    ]
    assert sums(spec, tiles, rows, [1, 0, 1, 1, 0, 0]) == expected
    # the last tile lacks a beat
    assert sums(spec, tiles.reshape(-1, 6)[:-1], rows, [1, 0, 1, 1, 0, 0]) == expected[:3]
    assert sums(spec, tiles, rows, [1, 0, 1, 1, 0, 0], words=2) == expected[:2]


def test_the_largest_sum_fits():
    lanes = LANES_LIMIT - 2
    spec = TileArraySpec(lanes=lanes, columns=1)
    (found,) = sums(spec, np.full((lanes, 1), Q4_14.minimum), np.full((1, lanes), Q8_16.minimum), [1])
    assert found == [lanes << 40]
    assert found[0] <= SUM.maximum < LANES_LIMIT << 40


def test_a_first_row_without_a_tile():
    with pytest.raises(UserError, match="mark it swap"):
        sums(TileArraySpec(lanes=4, columns=1), np.zeros((4, 1), int), np.zeros((1, 4), int), [0])


@pytest.mark.parametrize("settings", [{"lanes": 2}, {"lanes": 7}, {"lanes": 128}, {"columns": 0}, {"columns": 65}])
def test_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(UserError, match=f"{name} = {value}"):
        TileArraySpec(**settings)
