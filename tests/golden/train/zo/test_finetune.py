"""Zeroth-order runs by method: parameters, sources, convergence and reproducibility."""

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.golden.datasets.dataset import Samples, Task
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.train.zo import CachedPerturbations, Gaussian, MeZO, Periodic, ZerothOrder
from fabtune.golden.train.zo.finetune import ZoSettings, fine_tune, format_of
from fabtune.golden.train.zo.methods import GENERATORS, source_of, start_of
from fabtune.golden.train.zo.network_objective import NetworkObjective
from fabtune.golden.train.zo.schedule import Schedule, descend


def samples(count, seed, shift=0.0):
    """Two clouds."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    centres = np.where(labels[:, None], 1.0, -1.0) + shift
    return Samples((centres + rng.normal(0, 0.7, (count, 6))).astype(np.float32), labels)


@pytest.fixture
def objective():
    """A small untrained network."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    return NetworkObjective(module, Task("clouds", samples(80, 0), samples(80, 1, 0.3), samples(80, 2, 0.3)))


def settings(method, **changes):
    return ZoSettings(method, **({"rate": 2e-2, "schedule": Schedule(120, 16)} | changes))


@pytest.mark.parametrize(
    ("method", "engine"),
    [("mezo", "float"), ("pezo-pool", "golden"), ("pezo-otf", "golden"), ("pezo-otf", "float")],
)
def test_a_network_learns(objective, method, engine):
    progress = []
    result = fine_tune(objective, settings(method, engine=engine), lambda *what: progress.append(what), watch=50)
    assert result.engine == engine
    assert result.loss_last < 0.7 * result.loss_first
    assert result.accuracy_after > 0.85 > result.accuracy_before
    assert [step for step, _ in result.curve] == [0, 50, 100, 120]
    assert [one[1] for one in progress] == result.losses
    assert result.trained_parameters == 6 * 32 + 32 + 32 * 2 + 2
    assert sum(one.size for one in result.tensors.values()) == result.trained_parameters


def test_integers_are_the_default_of_periodic_generators(objective):
    assert fine_tune(objective, settings("mezo", schedule=Schedule(1))).engine == "float"
    assert fine_tune(objective, settings("pezo-pool", schedule=Schedule(1))).engine == "golden"


def test_a_run_repeats_and_a_seed_changes_it(objective):
    runs = []
    start = {name: one.clone() for name, one in objective.module.state_dict().items()}
    for seed in (0, 0, 1):
        objective.module.load_state_dict(start)
        runs.append(fine_tune(objective, settings("pezo-otf", schedule=Schedule(20, 16, seed))).losses)
    assert runs[0] == runs[1] != runs[2]


def test_sparse_tunes_what_the_mask_names(objective):
    dense = [one.detach().clone() for one in objective.module.parameters()]
    result = fine_tune(objective, settings("sparse-zo", mask="task", fraction=0.1, rate=0.1))
    assert result.trained_parameters == round(0.1 * 6 * 32) + round(0.1 * 32 * 2)
    assert result.loss_last < result.loss_first
    values, indices = result.tensors["0.values"], result.tensors["0.indices"]
    assert not np.allclose(values, dense[0].view(-1)[indices])


@pytest.mark.parametrize("mask", ["generic", "random"])
def test_other_masks(objective, mask):
    result = fine_tune(objective, settings("sparse-zo", mask=mask, fraction=0.05, schedule=Schedule(2)))
    assert result.trained_parameters == round(0.05 * 6 * 32) + round(0.05 * 32 * 2)


def test_the_format_lets_the_largest_weight_double():
    assert format_of(nn.Linear(3, 3)) == Format(4, 28)
    for largest, integer in ((3.9, 4), (4.0, 5), (13.0, 6), (100.0, 9)):
        layer = nn.Linear(1, 1)
        nn.init.constant_(layer.weight, largest)
        assert format_of(layer) == Format(integer, 32 - integer)


def test_a_schedule_uses_all_samples():
    schedule = Schedule(7, 4, seed=3)
    seen = list(schedule.indices(10))
    assert [len(one) for one in seen] == [4, 4, 2, 4, 4, 2, 4]
    assert sorted(np.concatenate(seen[:3])) == sorted(np.concatenate(seen[3:6])) == list(range(10))
    assert all(np.array_equal(a, b) for a, b in zip(seen, schedule.indices(10), strict=True))


def test_descend_stops_at_a_loss_that_is_not_finite():
    weight = nn.Parameter(torch.ones(4))
    optimiser = MeZO([weight], lr=0.1)
    losses = iter([1.0, 1.0, float("nan"), 1.0])
    steps = descend(optimiser, lambda indices: lambda: next(losses), 4, Schedule(2, 2))
    next(steps)
    before = weight.detach().clone()
    with pytest.raises(UserError, match="loss is nan"):
        next(steps)
    torch.testing.assert_close(weight.detach(), before)


# -- sources ----------------------------------------------------------------------------------------------------------


def test_cached_numbers_are_equal():
    weights, cached, own = torch.randn(1000), CachedPerturbations(Gaussian(3)), Gaussian(3)
    a, b = weights.clone(), weights.clone()
    for position, offset, amount in ((0, 0, 0.5), (0, 0, -1.0), (5, 700, 0.25), (0, 0, 1.0), (5, 700, 2.0)):
        cached.add_(a, position, offset, amount)
        own.add_(b, position, offset, amount)
    assert torch.equal(a, b)
    assert repr(cached) == repr(own)
    assert cached.span(100_000) == own.span(100_000)


def test_a_cached_source_resumes_the_state_of_the_plain_one():
    state = ZerothOrder(nn.Linear(2, 2).parameters(), Gaussian(1)).state_dict()
    ZerothOrder(nn.Linear(2, 2).parameters(), CachedPerturbations(Gaussian(1))).load_state_dict(state)


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_by_name(name):
    source = source_of(name, 1)
    assert isinstance(source, Periodic) == (name in PezoSpec.presets)
    numbers = source.draw(start_of(source, 1), 4096)
    assert float(numbers.std()) == pytest.approx({"integers": 74, "uniform": 0.577}.get(name, 1), rel=0.1)


def test_a_generators_parameters():
    assert source_of("otf8", 0, ["scale.urng.n=7"]).spec.width == 7
    assert source_of("otf14", 0, (), 10).fraction_bits == 10
    assert source_of("otf8", 0, (), 12).fraction_bits == source_of("otf8").fraction_bits


def test_seeds_start_a_periodic_generator_elsewhere():
    source = source_of("otf8")
    assert len({start_of(source, seed) for seed in range(5)}) == 5
    assert start_of(source_of("gaussian"), 5) == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": "zo"}, "no method 'zo'; there are: mezo"),
        ({"method": "mezo", "engine": "golden"}, "gaussian numbers are floats"),
        ({"method": "pezo-otf", "engine": "verilog"}, "no engine .verilog.; there are: float, golden, rtl"),
        ({"method": "mezo", "engine": "rtl"}, "gaussian numbers are floats"),
        ({"method": "mezo", "rate": 0.0}, "rate = 0.0"),
        ({"method": "mezo", "rate": float("nan")}, "rate = nan"),
        ({"method": "sparse-zo", "mask": "best"}, "mask = 'best'"),
        ({"method": "sparse-zo", "fraction": 1.5}, "fraction = 1.5"),
        ({"method": "mezo", "eps": 0.0}, "eps = 0.0"),
        ({"method": "mezo", "generator": "dice"}, "no generator 'dice'"),
        ({"method": "mezo", "parameters": ("n=3",)}, "gaussian numbers have no parameters"),
        ({"method": "pezo-otf", "parameters": ("bogus=3",)}, "bogus"),
    ],
)
def test_mistakes(changes, says):
    with pytest.raises(UserError, match=says):
        ZoSettings(**changes)


@pytest.mark.parametrize(("name", "value"), [("steps", 0), ("batch", 0)])
def test_an_empty_schedule_is_refused(name, value):
    with pytest.raises(UserError, match=f"{name} = 0"):
        Schedule(**{name: value})
