"""Masks compared with sorting, squared gradients with formulas by hand; refusals."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.train.sparse.masks import (
    count_of,
    coverage,
    linears,
    overlap,
    random_mask,
    sensitive,
    squared_gradients,
)


class Tied(nn.Module):
    """A language model with tied output layer and embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.inner = nn.Linear(6, 6)
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words):
        return self.head(torch.relu(self.inner(self.embedding(words))))


def network():
    return nn.Sequential(nn.Linear(7, 12), nn.LayerNorm(12), nn.ReLU(), nn.Sequential(nn.Linear(12, 5, bias=False)))


def losses_of(module, inputs, labels):
    """A loss per sample."""
    return (
        lambda x=x, y=y: functional.cross_entropy(module(x[None]), y[None]) for x, y in zip(inputs, labels, strict=True)
    )


def by_sorting(score, count):
    """Python's sort is stable: equal values keep index order."""
    flat = score.reshape(-1).tolist()
    return sorted(sorted(range(len(flat)), key=lambda index: -flat[index])[:count])


def test_squared_gradients_of_one_layer_by_hand():
    # half the squared error of W x has the gradient (W x - y) x'
    layer = nn.Linear(3, 2, bias=False)
    inputs, targets = torch.randn(5, 3), torch.randn(5, 2)
    found = squared_gradients(
        nn.Sequential(layer),
        (lambda x=x, y=y: ((layer(x) - y) ** 2).sum() / 2 for x, y in zip(inputs, targets, strict=True)),
    )
    error = layer(inputs) - targets
    expected = (error**2).T @ inputs**2
    assert list(found) == ["0"]
    assert torch.allclose(found["0"], expected.detach(), rtol=1e-5)


def test_squared_gradients_are_those_of_backward():
    module, inputs, labels = network(), torch.randn(6, 7), torch.randint(5, (6,))
    found = squared_gradients(module, losses_of(module, inputs, labels))
    expected = {name: torch.zeros_like(layer.weight) for name, layer in linears(module).items()}
    for loss in losses_of(module, inputs, labels):
        module.zero_grad()
        loss().backward()
        for name, layer in linears(module).items():
            expected[name] += layer.weight.grad**2
    assert list(found) == ["0", "3.0"]
    for name in expected:
        assert torch.allclose(found[name], expected[name], rtol=1e-5)
        assert not found[name].requires_grad


def test_a_batchs_mean_is_another_thing_than_its_samples():
    module, inputs, labels = network(), torch.randn(6, 7), torch.randint(5, (6,))
    samples = squared_gradients(module, losses_of(module, inputs, labels))
    batch = squared_gradients(module, [lambda: functional.cross_entropy(module(inputs), labels)])
    # the square of a mean is at most the mean of the squares
    for name in samples:
        assert (batch[name] <= samples[name] / 6 * (1 + 1e-4) + 1e-12).all()
        assert not torch.allclose(batch[name], samples[name] / 6)


def test_the_module_stays_as_it_is():
    module, inputs, labels = network().eval(), torch.randn(3, 7), torch.randint(5, (3,))
    module.requires_grad_(False)
    module[1].weight.requires_grad_(True)
    before = {name: one.clone() for name, one in module.state_dict().items()}
    required = [one.requires_grad for one in module.parameters()]
    with torch.no_grad():
        found = squared_gradients(module, losses_of(module, inputs, labels))
    assert all(score.any() for score in found.values())
    assert [one.requires_grad for one in module.parameters()] == required
    assert all(one.grad is None for one in module.parameters())
    assert not module.training
    assert all(torch.equal(before[name], one) for name, one in module.state_dict().items())


def test_what_requires_gradients_is_restored_after_an_error():
    module = network().requires_grad_(False)
    with pytest.raises(UserError, match="loss 0 is nan"):
        squared_gradients(module, [lambda: module(torch.full((1, 7), torch.nan)).sum()])
    assert not any(one.requires_grad for one in module.parameters())


def test_half_precision_is_squared_in_float32():
    module = nn.Sequential(nn.Linear(4, 4, bias=False)).half()
    inputs = torch.full((1, 4), 1e-3).half()
    found = squared_gradients(module, [lambda: module(inputs).sum()])["0"]
    # in float16 the square of 1e-3 has three bits left
    assert torch.allclose(found, inputs[0].float().square().expand(4, 4), rtol=1e-6)


def test_shared_weights_and_repeated_layers():
    assert list(linears(Tied())) == ["inner"]
    layer = nn.Linear(3, 3)
    assert list(linears(nn.ModuleDict({"a": layer, "b": layer}))) == ["a"]


@pytest.mark.parametrize("fraction", [0.001, 0.01, 0.3, 1])
def test_the_mask_is_the_top_of_each_layer(fraction):
    scores = {"a": torch.rand(40, 30), "b": 1000 * torch.rand(7, 9)}
    mask = sensitive(scores, fraction)
    for name, score in scores.items():
        assert mask[name].tolist() == by_sorting(score, max(1, round(fraction * score.numel())))
        assert mask[name].dtype == torch.int64


def test_ties_go_to_the_lower_index():
    scores = {"a": torch.randint(3, (50, 20)).float(), "b": torch.ones(9, 9)}
    mask = sensitive(scores, 0.1)
    assert mask["a"].tolist() == by_sorting(scores["a"], 100)
    assert mask["b"].tolist() == list(range(8))


@pytest.mark.parametrize(
    ("weights", "fraction", "count"), [(1, 0.001, 1), (499, 0.001, 1), (1501, 0.001, 2), (16_777_216, 0.001, 16777)]
)
def test_how_many_are_sensitive(weights, fraction, count):
    assert count_of(weights, fraction) == count


def test_random_masks():
    module = network()
    mask = random_mask(module, 0.25, seed=3)
    for name, layer in linears(module).items():
        chosen = mask[name]
        assert len(chosen) == round(0.25 * layer.weight.numel())
        assert (chosen.diff() > 0).all()
        assert 0 <= chosen[0] <= chosen[-1] < layer.weight.numel()
    assert all(torch.equal(mask[name], same) for name, same in random_mask(module, 0.25, seed=3).items())
    other = random_mask(module, 0.25, seed=4)
    assert not torch.equal(mask["0"], other["0"])


def test_random_masks_reach_every_weight_alike():
    module = nn.Sequential(nn.Linear(10, 10))
    counts = np.zeros(100)
    for seed in range(400):
        counts[random_mask(module, 0.1, seed)["0"]] += 1
    # 40 +- 6 each
    assert 15 < counts.min() <= counts.max() < 70


def test_overlap():
    a = {"x": torch.tensor([1, 2, 3]), "y": torch.tensor([5])}
    assert overlap(a, a) == 1
    assert overlap(a, {"x": torch.tensor([2, 3, 4])}) == 0.5
    assert overlap({"x": torch.tensor([2, 3])}, a) == 1


def test_coverage():
    scores = {"x": torch.tensor([[1.0, 2], [3, 4]]), "y": torch.tensor([[0.0, 5]])}
    assert coverage(scores, {"x": torch.tensor([1, 3]), "y": torch.tensor([1])}) == {"x": 0.6, "y": 1}


def test_no_other_mask_of_its_size_covers_more():
    scores = {"x": torch.rand(20, 20) ** 8}
    best = coverage(scores, sensitive(scores, 0.05))["x"]
    module = nn.ModuleDict({"x": nn.Linear(20, 20)})
    assert all(coverage(scores, random_mask(module, 0.05, seed))["x"] < best for seed in range(20))


def test_a_mask_from_generic_samples_covers_a_task():
    """The paper's claim in miniature: inputs of unequal size make the same weights sensitive for every label."""
    module = network()
    size = torch.tensor([8.0, 4, 1, 1, 1, 0.5, 0.5])
    generic, task = (
        squared_gradients(module, losses_of(module, torch.randn(64, 7) * size, torch.randint(high, (64,))))
        for high in (5, 2)
    )
    mask, own = sensitive(generic, 0.1), sensitive(task, 0.1)
    random = random_mask(module, 0.1)
    assert coverage(task, mask)["0"] > 2 * coverage(task, random)["0"]
    assert coverage(task, own)["0"] >= coverage(task, mask)["0"]
    assert overlap(mask, own) > 0.2


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: squared_gradients(nn.ReLU(), [lambda: torch.ones(())]), "no linear layer"),
        (lambda: squared_gradients(network(), []), "no loss"),
        (lambda: squared_gradients(network(), [lambda: torch.ones(())]), "loss 0 has no gradient"),
        (lambda: sensitive({"a": torch.ones(3)}, 0), "fraction = 0 is not"),
        (lambda: sensitive({"a": torch.ones(3)}, 1.5), "fraction = 1.5 is not"),
        (lambda: sensitive({"a": torch.zeros(3)}), "'a' has scores of 0 only"),
        (lambda: sensitive({"a": torch.tensor([1, torch.nan])}), "'a' has a score that is not finite"),
        (lambda: random_mask(network(), seed=-1), "seed = -1"),
        (lambda: random_mask(network(), 2), "fraction = 2"),
        (lambda: coverage({}, {"a": torch.tensor([0])}), "'a' of the mask has no squared gradients"),
    ],
)
def test_refused(action, message):
    with pytest.raises(UserError, match=message):
        action()
