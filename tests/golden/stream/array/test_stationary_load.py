"""`stationary_load` with `tile_array`: attention scores and contexts are matrix products; refusals."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.array.stationary_load import StationaryLoadSpec
from fabtune.golden.stream.array.tile_array import TileArraySpec

LANES, COLUMNS = 8, 4


def tiles(values, turn, part=0, zero=0):
    count = len(values)
    flags = {"turn": (turn, 1), "part": (part, 1), "zero": (zero, LANES // COLUMNS)}
    given = {name: np.broadcast_to(one, (count, lanes)).astype(int) for name, (one, lanes) in flags.items()}
    given["value"] = values
    return StationaryLoadSpec(lanes=LANES, columns=COLUMNS).run({"i": given}, 1000)["o"]


def products(rows, beats):
    """Sums of rows with one tile."""
    spec = TileArraySpec(lanes=LANES, columns=COLUMNS)
    swap = (np.arange(len(rows)) == 0).astype(int)[:, None]
    return spec.run({"w": beats, "x": {"value": rows, "swap": swap}}, 100)["o"]["sum"]


def test_keys_are_columns_and_values_are_lanes():
    rng = np.random.default_rng(0)
    queries, keys = rng.integers(-(1 << 23), 1 << 23, (5, LANES)), rng.integers(-(1 << 17), 1 << 17, (COLUMNS, LANES))
    assert np.array_equal(products(queries, tiles(keys, turn=1)), queries @ keys.T)
    weights, values = rng.integers(0, 1 << 20, (5, LANES)), rng.integers(-(1 << 17), 1 << 17, (LANES, LANES))
    for part in range(2):
        chosen = values[:, part * COLUMNS : (part + 1) * COLUMNS]
        assert np.array_equal(products(weights, tiles(values, turn=0, part=part)), weights @ chosen)


def test_tokens_behind_the_end_are_zero():
    keys = np.full((COLUMNS, LANES), -(1 << 17))
    found = products(np.ones((1, LANES), int), tiles(keys, 1, zero=[[0], [0], [1], [1]]))
    assert found.tolist() == [[-LANES << 17, -LANES << 17, 0, 0]]


def test_parts_of_other_heads_are_zero():
    rng = np.random.default_rng(1)
    queries, keys = rng.integers(-(1 << 23), 1 << 23, (5, LANES)), rng.integers(-(1 << 17), 1 << 17, (COLUMNS, LANES))
    for part in range(2):
        own = slice(part * COLUMNS, (part + 1) * COLUMNS)
        found = products(queries, tiles(keys, 1, zero=[part == 1, part == 0]))
        assert np.array_equal(found, queries[:, own] @ keys[:, own].T)


def test_18_bits_count():
    keys = np.full((COLUMNS, LANES), (1 << 20) - 1)
    assert (tiles(keys, 1)["weight"] == -1).all()


def test_a_tile_that_is_not_complete_gives_nothing():
    assert len(tiles(np.zeros((COLUMNS + 1, LANES), int), 1)["weight"]) == LANES // 2
    assert len(tiles(np.zeros((LANES - 1, LANES), int), 0)["weight"]) == 0


@pytest.mark.parametrize("flags", [{"turn": [[1], [0]] * 2}, {"turn": 0, "part": [[0]] * 7 + [[1]]}])
def test_rows_of_a_tile_are_alike(flags):
    rows = COLUMNS if "part" not in flags else LANES
    with pytest.raises(UserError, match=f"rows 0 to {rows - 1} are of one tile"):
        tiles(np.zeros((rows, LANES), int), **flags)


@pytest.mark.parametrize(
    "settings", [{"lanes": 2}, {"lanes": 24}, {"lanes": 128}, {"columns": 0}, {"columns": 12}, {"columns": 64}]
)
def test_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(UserError, match=f"{name} = {value}"):
        StationaryLoadSpec(**settings)
