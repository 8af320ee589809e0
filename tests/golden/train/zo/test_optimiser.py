"""Optimisers: MeZO's formula by hand, resuming, convergence with every source, refusals."""

import io
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.train.zo import Gaussian, MeZO, Periodic, PeZO, Rademacher, Uniform, ZerothOrder

Q4_28 = Format(4, 28)
POOL = PezoSpec(strategy="pool")
OTF14 = build(BLOCKS["pezo"], ["urng.bits=14"])
BLOCK = 1 << 12
SOURCES = {
    "gaussian": Gaussian(block=BLOCK),
    "rademacher": Rademacher(block=BLOCK),
    "pool": Periodic(POOL),
    "otf8": Periodic(PezoSpec()),
    "otf14": Periodic(OTF14, fraction=10),
}


CASES = [(name, kind) for name in SOURCES for kind in (None, Q4_28) if not kind or isinstance(SOURCES[name], Periodic)]


class Task:
    """A small classification for an untrained network, all samples in every loss."""

    def __init__(self, seed=0, dtype=torch.float32):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 3)).to(dtype)
        self.inputs = torch.randn(96, 12).to(dtype)
        self.labels = (self.inputs @ torch.randn(12, 3).to(dtype)).argmax(1)
        self.calls = 0

    def loss(self):
        self.calls += 1
        assert not torch.is_grad_enabled()
        return functional.cross_entropy(self.model(self.inputs), self.labels)

    def now(self):
        with torch.no_grad():
            return float(self.loss())

    def vector(self):
        return torch.cat([one.detach().view(-1) for one in self.model.parameters()])


def run(task, optimiser, steps):
    return [optimiser.step(task.loss) for _ in range(steps)]


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{name}, {kind or 'floats'}" for name, kind in CASES])
def test_training_converges(name, kind):
    task = Task()
    start = task.now()
    run(task, ZerothOrder(task.model.parameters(), SOURCES[name], lr=5e-3, format=kind), 600)
    assert task.now() < 0.55 * start


@pytest.mark.parametrize("settings", [{"queries": 4, "lr": 2e-2}, {"differences": "one-sided", "lr": 5e-3}])
def test_other_differences_converge(settings):
    task = Task()
    start = task.now()
    run(task, PeZO(task.model.parameters(), POOL, **settings), 600 // settings.get("queries", 1))
    assert task.now() < 0.6 * start


def test_unscaled_uniform_numbers_are_slower_in_the_unit_interval_and_collapse_as_integers():
    """With a Gaussian's settings: a third of the step; and 128 times the perturbation, 5,461 times the step."""
    after = {}
    for source in (Gaussian(block=BLOCK), Uniform(block=BLOCK), Uniform(block=BLOCK, half_width=128)):
        task = Task()
        start = task.now()
        run(task, ZerothOrder(task.model.parameters(), source, lr=3e-3), 400)
        after[source] = task.now() / start
    gaussian, unit, integers = after.values()
    assert gaussian < 0.75
    assert gaussian + 0.1 < unit < 0.95
    assert integers > 1


def mezo_step(task, source, position, lr, eps, decay):
    """MeZO's published step with given z: perturb, perturb back, restore, update."""
    parameters = list(task.model.named_parameters())

    def z():
        offset = 0
        for name, one in parameters:
            yield name, one, source.draw(position, one.numel(), offset).view(one.shape)
            offset += one.numel()

    losses = []
    for factor in (1, -2):
        for _, one, numbers in z():
            one.data = one.data + factor * eps * numbers
        losses.append(task.now())
    for _, one, numbers in z():
        one.data = one.data + eps * numbers
    gradient = (losses[0] - losses[1]) / (2 * eps)
    for name, one, numbers in z():
        if "bias" not in name and "1." not in name:  # 1 is the layer norm
            one.data = one.data - lr * (gradient * numbers + decay * one.data)
        else:
            one.data = one.data - lr * (gradient * numbers)


@pytest.mark.parametrize("name", ["gaussian", "pool", "otf8"])
def test_a_step_is_mezos(name):
    mine, theirs = Task(dtype=torch.float64), Task(dtype=torch.float64)
    settings = {"lr": 1e-2, "eps": 1e-3, "weight_decay": 0.1}
    optimiser = ZerothOrder(mine.model.parameters(), SOURCES[name], position=7, **settings)
    start = mine.vector()
    for _ in range(3):
        mezo_step(theirs, SOURCES[name], optimiser.position, 1e-2, 1e-3, 0.1)
        optimiser.step(mine.loss)
    assert optimiser.position == 7 + 3 * SOURCES[name].span(len(start))
    assert (mine.vector() - start).abs().max() > 1e-3
    assert torch.allclose(mine.vector(), theirs.vector(), rtol=0, atol=1e-8)


def test_an_integer_step_is_goldens_perturbation_times_a_coefficient():
    task = Task()
    optimiser = PeZO(task.model.parameters(), lr=1e-2, format=Q4_28, position=5)
    before = torch.cat(optimiser.state_dict()["zeroth_order"]["integers"]).numpy().astype(np.int64)
    optimiser.step(task.loss)
    ((position, coefficient),) = optimiser.moves
    assert position == 5
    assert coefficient == round(-1e-2 * optimiser.slopes[0] * 2**18) != 0
    expected = before + coefficient * draw_perturbation(PezoSpec(), 5, len(before), 32)
    after = torch.cat(optimiser.state_dict()["zeroth_order"]["integers"]).numpy()
    assert np.array_equal(after, expected)
    assert optimiser.eps == 262 / 2**18


def test_a_run_of_integer_steps_is_their_sum():
    """As on a server, from positions and coefficients only."""
    task, server = Task(), Task()
    optimiser = PeZO(task.model.parameters(), OTF14, fraction=10, lr=1e-2, queries=3, format=Q4_28)
    moves = []
    for _ in range(20):
        optimiser.step(task.loss)
        moves += optimiser.moves
    weights = PeZO(server.model.parameters(), OTF14, fraction=10, format=Q4_28).weights
    weights.apply(weights.source.table_of(weights.source.accumulate(reversed(moves))))
    assert len(moves) == 60
    assert torch.equal(torch.cat(weights.integers), torch.cat(optimiser.weights.integers))
    assert torch.equal(server.vector(), task.vector())


def test_queries_are_averaged():
    """With a linear loss a projected gradient is exact: the step is the mean over the queries."""
    parameter = nn.Parameter(torch.zeros(50, dtype=torch.float64))
    direction = torch.arange(50, dtype=torch.float64)
    optimiser = PeZO([parameter], POOL, lr=0.1, queries=5, eps=0.01)
    optimiser.step(lambda: direction @ parameter)
    z = [Periodic(POOL).draw(position, 50, dtype=torch.float64) for position in range(0, 10, 2)]
    assert torch.allclose(parameter, -0.1 * sum(one * (one @ direction) for one in z) / 5, atol=1e-9)
    assert optimiser.position == 10


def test_one_sided_differences_see_the_loss_once_more_and_keep_the_curvature():
    slopes = {}
    for differences in ("central", "one-sided"):
        task = Task(dtype=torch.float64)
        optimiser = MeZO(task.model.parameters(), queries=3, differences=differences, eps=1e-2)
        before = task.now()
        loss = optimiser.step(task.loss)
        assert task.calls == {"central": 1 + 6, "one-sided": 1 + 4}[differences]
        assert loss == pytest.approx(before, abs=0 if differences == "one-sided" else 0.05)
        slopes[differences] = optimiser.slopes
    for central, one_sided in zip(*slopes.values(), strict=True):
        assert one_sided != pytest.approx(central, rel=1e-6)
        assert one_sided == pytest.approx(central, abs=1)


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{name}, {kind or 'floats'}" for name, kind in CASES])
def test_a_saved_run_resumes_to_the_bit(name, kind):
    def make(task, **settings):
        return ZerothOrder(task.model.parameters(), SOURCES[name], lr=1e-2, format=kind, **settings)

    whole, first = Task(), Task()
    losses = run(whole, make(whole, queries=2), 12)
    optimiser = make(first, queries=2)
    run(first, optimiser, 5)
    file = io.BytesIO()
    torch.save({"model": first.model.state_dict(), "optimiser": optimiser.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second = Task()
    second.model.load_state_dict(saved["model"])
    resumed = make(second)
    resumed.load_state_dict(saved["optimiser"])
    assert run(second, resumed, 7) == losses[5:]
    assert torch.equal(second.vector(), whole.vector())


def test_a_state_of_another_run_is_refused():
    task = Task()
    state = PeZO(task.model.parameters(), POOL).state_dict()
    for other in (PeZO(task.model.parameters()), PeZO(task.model.parameters(), POOL, lanes=8)):
        with pytest.raises(UserError, match="saved with source"):
            other.load_state_dict(state)
    with pytest.raises(UserError, match="saved with format"):
        PeZO(task.model.parameters(), POOL, format=Q4_28).load_state_dict(state)
    with pytest.raises(UserError, match="saved with count"):
        PeZO(task.model[0].parameters(), POOL).load_state_dict(state)
    with pytest.raises(UserError, match="not from a zeroth-order optimiser"):
        PeZO(task.model.parameters(), POOL).load_state_dict(torch.optim.SGD(task.model.parameters()).state_dict())


def test_groups_have_rates_of_their_own_and_frozen_parameters_stay():
    task = Task()
    first, norm, _, last = task.model
    norm.requires_grad_(False)
    groups = [{"params": first.parameters()}, {"params": norm.parameters()}, {"params": last.parameters(), "lr": 0.0}]
    optimiser = PeZO(groups, lr=1e-2)
    before = [one.detach().clone() for one in task.model.parameters()]
    optimiser.step(task.loss)
    moved = [(now - then).abs().max().item() for now, then in zip(task.model.parameters(), before, strict=True)]
    assert min(moved[:2]) > 1e-4
    assert moved[2:4] == [0, 0]
    assert max(moved[4:]) < 1e-6  # restored up to rounding
    assert optimiser.position == math.ceil((12 * 24 + 24 + 24 * 3 + 3) / 32)


def test_pytorchs_schedulers_work():
    task = Task()
    optimiser = PeZO(task.model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=4)
    rates = []
    for _ in range(4):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step(lambda: 0.0)
        schedule.step()
    assert rates == [1.0, 0.75, 0.5, 0.25]


@pytest.mark.parametrize("kind", [None, Q4_28], ids=["floats", "integers"])
def test_a_loss_that_is_not_finite_changes_nothing(kind):
    task = Task()
    optimiser = PeZO(task.model.parameters(), lr=1e-2, queries=2, format=kind)
    optimiser.step(task.loss)
    before, position, answers = task.vector(), optimiser.position, iter([0.5, 0.4, 0.3, float("nan")])
    with pytest.raises(UserError, match=r"loss is 0\.3 and nan"):
        optimiser.step(lambda: next(answers))

    def broken():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimiser.step(broken)
    assert optimiser.position == position
    assert torch.allclose(task.vector(), before, rtol=0, atol=1e-6)
    assert kind is None or torch.equal(task.vector(), before)


WRONG = [
    ({"lr": -1.0}, "lr = -1.0"),
    ({"lr": float("nan")}, "lr = nan"),
    ({"eps": 0.0}, "eps = 0.0"),
    ({"eps": float("inf")}, "eps = inf"),
    ({"queries": 0}, "queries = 0"),
    ({"weight_decay": -0.1}, "weight_decay = -0.1"),
    ({"differences": "backward"}, "differences = 'backward'"),
    ({"position": -1}, "position = -1"),
    ({"format": Q4_28, "weight_decay": 0.1}, "no weight decay"),
    ({"format": Q4_28, "eps": 1e-5}, "give the format more fraction bits"),
    ({"format": Format(4, 12)}, "32 bits"),
]


@pytest.mark.parametrize(("settings", "named"), WRONG)
def test_settings_out_of_range_are_refused(settings, named):
    with pytest.raises(UserError, match=named):
        PeZO([nn.Parameter(torch.zeros(3))], **settings)


def test_parameters_that_cannot_be_tuned_are_refused():
    parameter = nn.Parameter(torch.zeros(4, 3))
    with pytest.raises(UserError, match="no parameters"):
        MeZO([])
    with pytest.raises(UserError, match="requires gradients"):
        MeZO([nn.Parameter(torch.zeros(3), requires_grad=False)])
    with pytest.raises(UserError, match=r"torch\.int64"):
        MeZO([parameter, torch.zeros(3, dtype=torch.int64)])
    with pytest.raises(UserError, match="not contiguous"):
        MeZO([nn.Parameter(torch.zeros(4, 3).T)])
    with pytest.raises(UserError, match="floats, which cannot be added"):
        MeZO([parameter], format=Q4_28)
    with pytest.raises(UserError, match="one group"):
        PeZO([{"params": [parameter]}, {"params": [nn.Parameter(torch.zeros(2))]}], format=Q4_28)


def test_a_step_that_overflows_integers_is_refused():
    parameter = nn.Parameter(torch.zeros(3))
    optimiser = PeZO([parameter], lr=1e6, queries=2, format=Q4_28)
    losses = iter([0.0, 0.0, 10.0, 0.0])
    with pytest.raises(UserError, match="overflows"):
        optimiser.step(lambda: next(losses))
    assert not parameter.any()
    assert optimiser.position == 0
