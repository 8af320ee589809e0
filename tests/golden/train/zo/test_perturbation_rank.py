"""Rank of a layer's perturbation, and of all perturbations of a pool."""

import numpy as np
import pytest

from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.models.text import network_from
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.rng.pool import PoolSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.words import TensorWords
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer import core_settings, source_of
from fabtune.golden.train.zo.parameter_order import ArrayOrder

POOL = core_settings(ZoSettings("pezo-pool"))


@pytest.mark.parametrize("shape", [(384, 384), (64, 64), (96, 384)], ids=str)
@pytest.mark.parametrize("tile", [(32, 16), (32, 32), (16, 4)], ids=str)
def test_a_pools_perturbation_of_a_transformers_layer_has_full_rank(shape, tile):
    order = TensorWords({(0, "weight"): shape}, *tile)
    numbers = source_of(POOL, order.width).spec.draw(100, order.words)
    assert np.linalg.matrix_rank(order.gathered((0, "weight"), numbers).astype(float)) == min(shape)


@pytest.mark.parametrize("columns", [4, 8, 16])
def test_a_pools_perturbation_of_a_networks_layers_has_full_rank(columns):
    order = ArrayOrder.of(network_from("1x8x16 flatten fc128 relu fc64 relu fc10"), 32, columns)
    mapping = order.mapping
    perturbation = draw_perturbation(
        source_of(POOL, mapping.width).spec, 3, mapping.words * mapping.width, mapping.width
    ).astype(np.int64)
    weights = [stage.weight for stage in mapping.split(perturbation)]
    assert [np.linalg.matrix_rank(own.astype(float)) for own in weights] == [128, 64, 10]


def test_32_numbers_on_tiles_of_32_x_16_give_a_sixteenth_of_the_rank():
    order = TensorWords({(0, "weight"): (384, 384)})
    numbers = build(PezoSpec, ["pool.p=32"], "pool").draw(100, order.words)
    assert np.linalg.matrix_rank(order.gathered((0, "weight"), numbers).astype(float)) == 24


@pytest.mark.parametrize(
    "make",
    [
        lambda pool: source_of(ZoSettings("pezo-pool", parameters=("pool.p=32",)), 512),
        lambda pool: ZostreamSpec(generator=pool),
        lambda pool: ZotrainSpec(generator=pool),
    ],
    ids=["tune", "zostream", "zotrain"],
)
def test_numbers_that_return_to_the_same_lanes_are_refused(make):
    with pytest.raises(
        UserError, match=r"32 numbers a cycle has the factor 32 in common.*pool\.p=33 with pool\.size=16863"
    ):
        make(build(PezoSpec, ["pool.p=32"], "pool"))


def test_as_many_numbers_as_lanes_are_taken():
    assert source_of(ZoSettings("pezo-pool", parameters=("pool.p=32",)), 32).spec.width == 32


def test_all_perturbations_of_a_pool_span_its_rows():
    """The small pool's 4,088 numbers have 511 shifts; their common offset is one of them."""
    pool = PoolSpec()
    weights = pool.rows * pool.p
    shifts = np.array([draw_perturbation(pool, start, weights, pool.p) for start in range(pool.rows)]) / 2**10
    variances = np.linalg.eigvalsh(shifts @ shifts.T / pool.rows)
    assert np.linalg.matrix_rank(shifts) == pool.rows == 511
    constant = np.full(weights, weights**-0.5)
    offset = np.mean((shifts @ constant) ** 2)
    assert variances.mean() == pytest.approx(8, rel=1e-3)
    assert offset == pytest.approx(weights * pool.numbers.mean() ** 2 / 2**20) == pytest.approx(0.57, abs=0.01)
