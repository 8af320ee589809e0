"""Assignment of numbers to weights: the rule and its users."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.perturbation import cycles_of, draw_perturbation, over_lanes, walk
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.rng.pool import PoolSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.tile import TileSpec

SOURCES = [PezoSpec(), PezoSpec(strategy="pool"), build(BLOCKS["pezo"], [], "otf14")]


@pytest.mark.parametrize("source", SOURCES, ids=["otf8", "pool", "otf14"])
@pytest.mark.parametrize("lanes", [8, 31, 32, 100])
def test_weight_i_is_lane_i_mod_l_of_cycle_i_div_l(source, lanes):
    weights, position = 1000, 12345
    drawn = draw_perturbation(source, position, weights, lanes)
    for i in (0, 1, lanes - 1, lanes, 777, 999):
        number = source.draw(position + i // lanes, 1)[0, i % lanes % source.width]
        assert drawn[i] == number


def test_the_next_perturbation_starts_where_the_last_ended():
    source = PoolSpec(size=4095)
    first = draw_perturbation(source, 0, 80, 8)
    second = draw_perturbation(source, cycles_of(80, 8), 80, 8)
    assert np.array_equal(np.concatenate([first, second]), draw_perturbation(source, 0, 160, 8))


def test_over_lanes_repeats_the_numbers():
    rows = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    assert over_lanes(rows, 7).tolist() == [[1, 2, 3, 1, 2, 3, 1], [4, 5, 6, 4, 5, 6, 4]]
    assert over_lanes(rows, 2).tolist() == [[1, 2], [4, 5]]


def test_a_walk_with_replays_and_marks():
    replay = np.array([0, 0, 1, 0, 0, 0, 1, 1])
    mark = np.array([0, 0, 0, 0, 0, 1, 1, 0])
    assert walk(replay, mark, 9).tolist() == [0, 1, 2, 0, 1, 2, 3, 3, 3]


@pytest.mark.parametrize("arguments", [(-1, 10, 8), (0, -1, 8), (0, 10, 0)])
def test_no_such_perturbation(arguments):
    with pytest.raises(UserError, match="no perturbation"):
        draw_perturbation(PoolSpec(), *arguments)


@pytest.mark.parametrize("preset", ["pool", "otf8", "otf14"])
def test_a_tiles_step_is_the_perturbation_rounded_and_added(preset):
    tile = build(TileSpec, ["overflow=wrap", "lanes=32"], preset)
    weights = np.random.default_rng(0).integers(-8000, 8000, 1000)
    plus, minus, following = tile.step(weights, 4242)
    drawn = draw_perturbation(tile.pezo, 4242, 1000, 32)
    step = np.rint(np.ldexp(drawn, 12 - tile.eps_shift - tile.pezo.fraction_bits))
    assert np.array_equal(plus, weights + step)
    assert np.array_equal(minus, weights - step)
    assert following == 4242 + 32
