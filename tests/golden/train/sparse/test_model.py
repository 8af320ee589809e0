"""Modules with sparse layers: replaced in place, tuned by zeroth order, merged back."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.train.sparse import SparseLinear, densify, random_mask, sensitive, sparsify, squared_gradients
from fabtune.golden.train.zo import Gaussian, Periodic, ZerothOrder

Q4_28 = Format(4, 28)
SOURCES = {
    "gaussian": (Gaussian(block=1 << 12), None),
    "otf8": (Periodic(PezoSpec()), None),
    "otf8, integers": (Periodic(PezoSpec()), Q4_28),
}


class Task:
    """A small classification for an untrained network, and its sparse network."""

    def __init__(self, fraction=0.1, **settings):
        self.module = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.ReLU(), nn.Sequential(nn.Linear(64, 4)))
        self.inputs = torch.randn(96, 16)
        self.labels = (self.inputs @ torch.randn(16, 4)).argmax(1)
        pairs = zip(self.inputs, self.labels, strict=True)
        losses = (lambda x=x, y=y: functional.cross_entropy(self.module(x[None]), y[None]) for x, y in pairs)
        self.mask = sensitive(squared_gradients(self.module, losses), fraction)
        self.dense = copy.deepcopy(self.module)
        self.params = sparsify(self.module, self.mask, **settings)

    @torch.no_grad()
    def loss(self):
        return functional.cross_entropy(self.module(self.inputs), self.labels)

    def frozen(self):
        """Everything except the sensitive weights."""
        return {name: one.clone() for name, one in self.module.state_dict().items() if not name.endswith("values")}


def test_layers_are_replaced_and_the_rest_is_frozen():
    task = Task()
    assert [type(one) for one in task.module] == [SparseLinear, nn.LayerNorm, nn.ReLU, nn.Sequential]
    assert isinstance(task.module[3][0], SparseLinear)
    assert [len(one) for one in task.params] == [102, 26]
    required = [one for one in task.module.parameters() if one.requires_grad]
    assert all(a is b for a, b in zip(required, task.params, strict=True))


def test_layers_that_the_mask_does_not_name_stay():
    module = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    tuned = sparsify(module, {"1": torch.tensor([3])})
    assert [type(one) for one in module] == [nn.Linear, SparseLinear]
    assert len(tuned) == 1
    assert not module[0].weight.requires_grad


def test_a_layer_in_two_places_is_replaced_in_both():
    layer = nn.Linear(8, 8)
    module = nn.Sequential(layer, nn.ReLU(), layer, nn.Sequential(layer))
    tuned = sparsify(module, random_mask(module, 0.1))
    assert module[0] is module[2] is module[3][0]
    assert isinstance(module[0], SparseLinear)
    assert len(tuned) == 1


def test_the_mode_is_kept():
    module = nn.Sequential(nn.Linear(8, 8)).eval()
    sparsify(module, random_mask(module, 0.1))
    assert not module[0].training


@pytest.mark.parametrize("name", SOURCES)
def test_a_step_moves_sensitive_weights_only(name):
    source, format = SOURCES[name]
    task = Task()
    optimiser = ZerothOrder(task.params, source, lr=1e-2, format=format)
    before, values = task.frozen(), [one.detach().clone() for one in task.params]
    for _ in range(5):
        optimiser.step(task.loss)
    assert all(torch.equal(before[name], one) for name, one in task.frozen().items())
    assert all((one != old).float().mean() > 0.9 for one, old in zip(task.params, values, strict=True))


@pytest.mark.parametrize("name", SOURCES)
def test_tuning_converges(name):
    source, format = SOURCES[name]
    task = Task(unpacked=True)
    start = task.loss()
    optimiser = ZerothOrder(task.params, source, lr=2e-2, format=format)
    for _ in range(600):
        optimiser.step(task.loss)
    assert task.loss() < 0.75 * start


def test_integers_return_to_the_bit():
    task = Task()
    source = Periodic(PezoSpec())
    optimiser = ZerothOrder(task.params, source, lr=1e-2, format=Q4_28)
    before, output = [one.detach().clone() for one in task.params], task.module(task.inputs)
    moves = []
    for _ in range(20):
        optimiser.step(task.loss)
        moves += optimiser.moves
    assert not torch.equal(task.module(task.inputs), output)
    for position, coefficient in reversed(moves):
        optimiser.weights.add(position, -coefficient * optimiser.weights.resolution)
    assert all(torch.equal(a, b) for a, b in zip(before, task.params, strict=True))
    assert torch.equal(task.module(task.inputs), output)


def test_unpacked_training_is_the_same_to_the_bit():
    task = Task()
    # the packed layers, unpacked
    fast = copy.deepcopy(task.dense)
    params = sparsify(fast, task.mask, unpacked=True)
    packed = ZerothOrder(task.params, Gaussian(block=1 << 12), lr=1e-2)
    quick = ZerothOrder(params, Gaussian(block=1 << 12), lr=1e-2)
    for _ in range(10):
        loss = packed.step(task.loss)
        assert quick.step(lambda: functional.cross_entropy(fast(task.inputs), task.labels)) == loss
    assert all(torch.equal(a, b) for a, b in zip(task.params, params, strict=True))


def test_small_steps_are_lost_by_a_parameter_in_16_bits_and_not_here():
    """Steps of a tenth of a last place: a float16 parameter does not move."""
    values = torch.full((256,), 0.5)
    half = values.half()
    sources = Gaussian(block=1 << 12)
    for _ in range(50):
        # the same direction repeatedly: 50 steps are 5 last places (2**-11 each) times z
        sources.add_(values, 0, 0, 0.1 * 2.0**-11)
        sources.add_(half, 0, 0, 0.1 * 2.0**-11)
    z = sources.draw(0, 256)
    assert torch.allclose(values - 0.5, z * 5 * 2.0**-11, atol=5e-6)
    assert (half == 0.5).float().mean() > 0.99
    assert (values.half() == 0.5).float().mean() < 0.2


def test_a_transformer_runs_on_sparse_layers():
    """PyTorch's layers read `weight` and `bias` on their fast path."""
    module = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    inputs = torch.randn(2, 5, 32)
    tuned = sparsify(module, random_mask(module, 0.1))
    assert len(tuned) == 3
    with torch.no_grad():
        fast = module(inputs)
    merged = copy.deepcopy(module)
    densify(merged)
    assert torch.allclose(fast, merged(inputs), atol=1e-5)
    assert torch.allclose(module(inputs), fast, atol=1e-5)


def test_merging_back():
    task = Task()
    with torch.no_grad():
        for one in task.params:
            one += 0.125
    output = task.module(task.inputs)
    densify(task.module)
    assert [type(one) for one in task.module.modules() if isinstance(one, nn.Linear)] == [nn.Linear] * 2
    assert torch.allclose(task.module(task.inputs), output, atol=1e-5)
    assert not any(one.requires_grad for one in task.module.parameters())


def shared():
    module = nn.Sequential(nn.Embedding(8, 8), nn.Linear(8, 8))
    module[1].weight = module[0].weight
    return module


@pytest.mark.parametrize(
    ("module", "mask", "message"),
    [
        (nn.Sequential(nn.Linear(8, 8)), {}, "mask has no layer"),
        (nn.Sequential(nn.Linear(8, 8)), {"1": torch.tensor([0])}, "'1' is not a linear layer"),
        (nn.Sequential(nn.ReLU()), {"0": torch.tensor([0])}, "'0' is not a linear layer"),
        (nn.Linear(8, 8), {"": torch.tensor([0])}, "a linear layer itself"),
        (shared(), {"1": torch.tensor([0])}, "'1' is not a linear layer with a weight of its own"),
    ],
)
def test_refused(module, mask, message):
    with pytest.raises(UserError, match=message):
        sparsify(module, mask)
    assert all(one.requires_grad for one in module.parameters())
