"""Model of `array_path`: the order of rows, unchecked by the hardware."""

import numpy as np
import pytest

from fabtune.golden.block import Words
from fabtune.golden.errors import UserError
from fabtune.golden.stream.array.array_path import ArrayPathSpec, TileKind

SPEC = ArrayPathSpec(lanes=6, columns=1, sums=8, drain=1, queries=4)


def _inputs(tiles: list[list[int]]) -> dict[str, Words]:
    """Tiles of a layer: rows of each, with first and last flags in the first and last tile."""
    numbers = np.concatenate([np.array(rows) for rows in tiles])[:, None]
    place = np.repeat(np.arange(len(tiles)), [len(rows) for rows in tiles])[:, None]
    flags = {"first": (place == 0).astype(np.int64), "last": (place == len(tiles) - 1).astype(np.int64)}
    none = {"weight": np.zeros((0, 2), np.int64)}
    count = np.array([[len(rows)] for rows in tiles])
    return {
        "order": {"kind": np.full(count.shape, TileKind.LINEAR), "rows": count, "used": np.full(count.shape, 6)},
        "rows": {"value": np.ones((len(numbers), 6), np.int64), "row": numbers, **flags},
        "terms": {"weight": np.zeros((0, 6), np.int64), "query": np.zeros((0, 1), np.int64)},
        "weights": {"weight": np.ones((3 * len(tiles), 2), np.int64)},
        "keys": none,
    }


@pytest.mark.parametrize("tiles", [[[0, 1, 2, 3], [0, 1, 2, 3]], [[0, 1, 2, 3], [2, 3]], [[0, 1], [1]]])
def test_rows_of_the_tile_before_in_their_order(tiles: list[list[int]]) -> None:
    found = SPEC.run(_inputs(tiles), 100)["sums"]
    assert found["row"][:, 0].tolist() == tiles[-1]
    assert (found["sum"] == 6 * len(tiles)).all()


@pytest.mark.parametrize("tiles", [[[0, 1, 2, 3], [3, 2, 1, 0]], [[0, 1, 2, 3], [3, 0]]])
def test_a_row_that_comes_too_early_behind_itself_is_refused(tiles: list[list[int]]) -> None:
    with pytest.raises(UserError, match="row 3 of a tile of"):
        SPEC.run(_inputs(tiles), 100)
