"""A sparse layer compared with the dense layer of the same weights."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.nf4 import codec as nf4
from fabtune.golden.train.sparse.linear import SparseLinear

SHAPES = [(96, 80), (64, 1), (7, 5), (1, 200), (130, 37)]
"""Inputs and outputs: row groups with one, several and odd numbers of blocks."""


def indices_of(count, share=0.05):
    return torch.randperm(count)[: max(1, round(share * count))].sort().values


def pair(inputs=96, outputs=80, bias=True, **settings):
    """A dense layer, and the same as sparse layer."""
    dense = nn.Linear(inputs, outputs, bias)
    return dense, SparseLinear(dense, indices_of(inputs * outputs), **settings)


def reference(dense, sparse):
    """The weight by equation 11, with NF4 from `golden.nf4.codec`."""
    flat = dense.weight.detach().reshape(-1)
    rest = flat.clone()
    rest[sparse.indices.long()] = 0
    padded = functional.pad(rest, (0, -len(rest) % 64)).view(-1, 64).numpy()
    weight = torch.from_numpy(nf4.quantise_floats(padded)).view(-1)[: len(flat)]
    assert not weight[sparse.indices.long()].any()
    weight[sparse.indices.long()] = flat[sparse.indices.long()].to(sparse.dtype).float()
    return weight.view(dense.weight.shape)


@pytest.fixture(params=[64, 1 << 20])
def group(request, monkeypatch):
    """Smallest possible tiles, and a whole layer in one tile."""
    monkeypatch.setattr(SparseLinear, "group_weights", request.param)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
def test_the_weight_is_the_sum_of_both_parts(inputs, outputs):
    dense, sparse = pair(inputs, outputs)
    assert torch.equal(sparse.weight, reference(dense, sparse))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types_of_the_sensitive_weights(dtype):
    dense, sparse = pair(dtype=dtype)
    chosen = dense.weight.detach().view(-1)[sparse.indices.long()]
    assert sparse.sensitive.dtype == dtype
    assert torch.equal(sparse.sensitive, chosen.to(dtype))
    assert torch.equal(sparse.weight, reference(dense, sparse))


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
def test_both_products_agree_with_the_dense_one(inputs, outputs, bias):
    dense, sparse = pair(inputs, outputs, bias)
    x = torch.randn(3, 4, inputs)
    expected = functional.linear(x.double(), reference(dense, sparse).double(), dense.bias.double() if bias else None)
    for found in (sparse(x), sparse.sparse_add(x), sparse.sparse_add_mm(x)):
        assert found.shape == (3, 4, outputs)
        assert torch.allclose(found.double(), expected, atol=2e-6 * inputs**0.5)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
def test_unpacked_is_the_same_to_the_bit(inputs, outputs):
    dense, sparse = pair(inputs, outputs)
    fast = SparseLinear(dense, sparse.indices, unpacked=True)
    x = torch.randn(9, inputs)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(fast(x), sparse(x))
            assert torch.equal(fast.sparse_add_mm(x), sparse.sparse_add_mm(x))
            assert torch.equal(fast.weight, sparse.weight)
            move = torch.randn_like(sparse.values)
            fast.values.add_(move)
            sparse.values.add_(move)


def test_few_rows_take_the_sparse_product(monkeypatch):
    _, sparse = pair()
    taken = []
    monkeypatch.setattr(SparseLinear, "few", 2)
    monkeypatch.setattr(SparseLinear, "sparse_add", lambda self, x: taken.append("add"))
    monkeypatch.setattr(SparseLinear, "sparse_add_mm", lambda self, x: taken.append("mm"))
    for shape in [(96,), (1, 96), (2, 1, 96), (3, 96), (2, 2, 96)]:
        sparse(torch.zeros(shape))
    assert taken == ["mm", "mm", "mm", "add", "add"]


@pytest.mark.parametrize("unpacked", [False, True])
def test_the_choice_is_the_same_packed_and_not(monkeypatch, unpacked):
    _, sparse = pair(unpacked=unpacked)
    x = torch.randn(3, 96)
    monkeypatch.setattr(SparseLinear, "few", 3)
    assert torch.equal(sparse(x), sparse.sparse_add_mm(x))
    monkeypatch.setattr(SparseLinear, "few", 2)
    assert torch.equal(sparse(x), sparse.sparse_add(x))


@pytest.mark.parametrize("unpacked", [False, True])
def test_a_single_row_without_a_batch(unpacked):
    _, sparse = pair(unpacked=unpacked)
    x = torch.randn(96)
    assert torch.allclose(sparse.sparse_add_mm(x), sparse(x), atol=1e-5)
    assert sparse(x).shape == (80,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_output_has_the_inputs_type(dtype):
    dense, sparse = pair()
    x = torch.randn(5, 96).to(dtype)
    expected = functional.linear(x, reference(dense, sparse).to(dtype), dense.bias.detach().to(dtype))
    assert torch.equal(sparse(x), expected)
    assert sparse.sparse_add_mm(x).dtype == dtype


@pytest.mark.parametrize("unpacked", [False, True])
def test_gradients_reach_the_sensitive_weights_and_the_input(unpacked):
    dense, sparse = pair(unpacked=unpacked, dtype=torch.float32)
    x = torch.randn(6, 96, requires_grad=True)
    # two passes in one graph
    loss = (sparse(x) ** 2).sum() + sparse(x).sum()
    mine = torch.autograd.grad(loss, [sparse.values, x])
    weight = reference(dense, sparse).requires_grad_(True)
    output = functional.linear(x, weight, dense.bias)
    theirs = torch.autograd.grad((output**2).sum() + output.sum(), [weight, x])
    assert torch.allclose(mine[0], theirs[0].view(-1)[sparse.indices.long()], atol=1e-4)
    assert torch.allclose(mine[1], theirs[1], atol=1e-4)


def test_a_step_below_half_a_last_place_is_kept():
    """1,000 steps of 2**-16 at a weight of 1: float16, with a last place of 2**-10, would not move."""
    dense = nn.Linear(4, 1, bias=False)
    nn.init.ones_(dense.weight)
    sparse = SparseLinear(dense, torch.tensor([2]))
    half = torch.ones((), dtype=torch.float16)
    with torch.no_grad():
        for _ in range(1000):
            sparse.values += 2.0**-16
            half += 2.0**-16
    assert half == 1
    assert sparse.values.item() == 1 + 1000 * 2.0**-16
    assert sparse.sensitive.item() == 1 + 16 * 2.0**-10  # 15.6 last places, rounded
    assert sparse(torch.tensor([[0.0, 0, 1, 0]])).item() == sparse.sensitive.item()


@pytest.mark.parametrize("unpacked", [False, True])
def test_a_saved_layer_comes_back(unpacked):
    dense, sparse = pair(unpacked=unpacked)
    with torch.no_grad():
        sparse.values += 1e-5
    other = SparseLinear(nn.Linear(96, 80), indices_of(96 * 80), unpacked=unpacked)
    other.load_state_dict(sparse.state_dict())
    copied = copy.deepcopy(sparse)
    x = torch.randn(5, 96)
    assert set(sparse.state_dict()) == {"values", "bias", "indices", "codes", "scales"}
    assert torch.equal(other.values, sparse.values)
    for one in (other, copied):
        assert torch.equal(one(x), sparse(x))
    # loading into a copy updates the copy, not the original layer
    copied.load_state_dict(SparseLinear(dense, indices_of(96 * 80), unpacked=unpacked).state_dict())
    assert torch.equal(other(x), sparse(x))


def test_to_linear_merges_what_was_tuned():
    _, sparse = pair()
    with torch.no_grad():
        sparse.values += 0.25
    merged = sparse.to_linear()
    x = torch.randn(5, 96)
    assert merged.weight.is_leaf
    assert merged.weight.requires_grad
    assert torch.equal(merged.weight, sparse.weight)
    assert torch.allclose(merged(x), sparse(x), atol=1e-6)


def test_the_given_layer_is_left_alone():
    dense = nn.Linear(8, 8)
    before = dense.weight.detach().clone()
    sparse = SparseLinear(dense, torch.tensor([3]), unpacked=True)
    with torch.no_grad():
        sparse.values += 1
        sparse(torch.ones(2, 8))
    assert torch.equal(dense.weight, before)
    assert sparse.bias is dense.bias


def test_an_empty_batch():
    _, sparse = pair()
    assert sparse(torch.zeros(0, 96)).shape == (0, 80)


def test_no_worse_than_nf4_allows():
    dense, sparse = pair(256, 256)
    scales = sparse.scales.repeat_interleave(64).view(256, 256)
    error = (sparse.weight - dense.weight).abs().detach()
    # half the widest gap; sensitive weights round far more finely
    assert (error <= 0.152 * scales + 2.0**-12).all()
    assert np.isclose(float((error / scales).mean()), 0.03, atol=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": torch.float64}, "dtype = torch.float64"),
        ({"indices": torch.tensor([3, 3])}, "not ascending"),
        ({"indices": torch.tensor([5, 3])}, "not ascending"),
        ({"indices": torch.tensor([-1, 3])}, "not ascending within 0 to 63"),
        ({"indices": torch.tensor([64])}, "not ascending within 0 to 63"),
        ({"indices": torch.tensor([], dtype=torch.int64)}, "given by integers"),
        ({"indices": torch.tensor([1.0])}, "given by integers"),
        ({"indices": torch.tensor([[1]])}, "given by integers"),
        ({"weight": 1e5}, "is 100000, not finite in torch.float16"),
        ({"weight": torch.nan, "dtype": torch.float32}, "is nan, not finite"),
    ],
)
def test_refused(settings, message):
    linear = nn.Linear(8, 8)
    with torch.no_grad():
        linear.weight.view(-1)[3] = settings.pop("weight", 0.5)
    indices = settings.pop("indices", torch.tensor([3]))
    with pytest.raises(UserError, match=message):
        SparseLinear(linear, indices, **settings)
