"""A layer through the hardware's `weight_path`, compared with the layer's weight."""

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12
from fabtune.golden.settings import build
from fabtune.golden.train.sparse import SparseLinear, random_mask
from fabtune.golden.train.sparse.stream import packet_of
from fabtune.golden.zo.weight_path import WeightPathSpec


def sparse_layer(inputs=96, outputs=33, scale=1.0, dtype=torch.float16):
    dense = nn.Linear(inputs, outputs)
    with torch.no_grad():
        dense.weight.mul_(scale)
    mask = random_mask(nn.Sequential(dense), 0.02)
    return SparseLinear(dense, mask["0"], dtype=dtype)


def through(layer, spec):
    """The layer's weight from the block: Q4.12 integers (out, in)."""
    inputs = packet_of(layer, spec)
    words = len(inputs["codes"]["code"])
    out = spec.run(inputs, words)["o"]
    assert out["weight"].shape == (words, spec.lanes)
    assert out["last"].ravel().tolist() == [0] * (words - 1) + [1]
    assert not out["error"].any()
    count = layer.in_features * layer.out_features
    flat = out["weight"].ravel()
    assert not flat[count:].any()
    return flat[:count]


@pytest.mark.parametrize(
    "spec", [WeightPathSpec(), WeightPathSpec(lanes=8), build(WeightPathSpec, ["lanes=64"], "otf8")]
)
@pytest.mark.parametrize(("inputs", "outputs", "scale"), [(96, 33, 1), (7, 5, 1), (64, 64, 20), (96, 33, 1e-3)])
def test_the_block_gives_the_layers_weight(inputs, outputs, scale, spec):
    layer = sparse_layer(inputs, outputs, scale)
    found = through(layer, spec)
    exact = layer.weight.detach().double().view(-1).numpy() * 4096
    chosen = layer.indices.numpy()
    assert (found[chosen] == Q4_12.from_float(exact[chosen] / 4096)).all()
    scales = layer.scales.double().numpy().repeat(64)[: len(exact)] * 4096
    # rounding of the scale, of the weight, of the level
    assert (np.abs(found - exact) <= 0.5 + 0.5 + (scales + 0.5) / 2**17).all()


def test_with_scales_in_q4_12_only_the_blocks_own_rounding_is_left():
    layer = sparse_layer()
    layer.scales.mul_(4096).round_().div_(4096)
    exact = layer.weight.detach().double().view(-1).numpy() * 4096
    scales = layer.scales.double().numpy().repeat(64)[: len(exact)] * 4096
    assert (np.abs(through(layer, WeightPathSpec()) - exact) <= 0.5 + scales / 2**17).all()


def test_a_tuned_weight_is_streamed():
    layer = sparse_layer()
    before = through(layer, WeightPathSpec())
    with torch.no_grad():
        layer.values += 3 / 4096
    after = through(layer, WeightPathSpec())
    changed = np.flatnonzero(before != after)
    assert (changed == layer.indices.numpy()).all()
    assert (np.abs((after - before)[changed] - 3) <= 1).all()


def test_weights_beyond_q4_12_are_refused():
    for scale in (200, 2000):
        with pytest.raises(UserError, match=r"beyond Q4\.12"):
            packet_of(sparse_layer(scale=scale), WeightPathSpec())


def test_layers_that_do_not_fit_the_block_are_refused():
    with pytest.raises(UserError, match="an index is 0 to 1023"):
        packet_of(sparse_layer(), WeightPathSpec(index_bits=10))
