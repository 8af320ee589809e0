"""Integer zeroth-order fine-tuning on the tile, and the demo's job."""

import numpy as np

from fabtune.golden.fixed import Q4_12
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.train.zo.digits_job import prepare
from fabtune.golden.zo.tile import TileSpec
from fabtune.golden.zo.tile_job import fine_tune


def test_a_quadratic_is_descended():
    target = Q4_12.from_float(np.linspace(-1, 1, 50))
    weights = np.zeros(50, np.int64)

    def loss(values):
        return float(np.sum(np.ldexp((values - target).astype(float), -12) ** 2))

    start = loss(weights)
    steps = list(fine_tune(weights, loss, TileSpec(lanes=8), 800, 0.01))
    assert loss(weights) < start / 50
    assert steps[0].position == 0
    assert steps[1].position == 7


def test_a_step_moves_along_its_perturbation():
    tile = TileSpec(lanes=8)
    weights = np.zeros(16, np.int64)
    slope = np.arange(16)
    next(iter(fine_tune(weights, lambda values: float(slope @ values) / 4096, tile, 1, 0.05)))
    direction = draw_perturbation(tile.pezo, 0, 16, 8).astype(float)
    assert abs(np.corrcoef(weights, direction)[0, 1]) > 0.99


def test_the_same_run_gives_the_same_bits():
    job = prepare()
    runs = []
    for _ in range(2):
        weights = job.weights.copy()
        list(fine_tune(weights, lambda values: job.loss(values, job.tune), TileSpec(), 20, 0.01))
        runs.append(weights)
    assert np.array_equal(*runs)


def test_the_job_has_a_drift_to_recover_from():
    job = prepare()
    assert job.accuracy_undrifted > 0.9
    assert job.accuracy(job.weights, job.test) < 0.6
    assert len(job.weights) == 64 * 32 + 32 + 32 * 10 + 10
    assert not set(map(bytes, job.tune.inputs)) & set(map(bytes, job.test.inputs))
