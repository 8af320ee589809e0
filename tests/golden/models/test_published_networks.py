"""Networks published in transformers: imported unchanged; golden outputs equal PyTorch's."""

import importlib.util

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.importers.layers.network import imported
from fabtune.golden.models.layers import Depthwise, MaxPool
from fabtune.golden.nn.arithmetic.forward import run
from fabtune.golden.nn.arithmetic.products import PRODUCTS
from fabtune.golden.train.conversion import Converter

from ...small_cores import with_slow
from .published import REFUSED, RIGHT, campaign


def residual(kind, *hidden_sizes):
    """ResNet: 7 x 7 stem and padded max-pool, then blocks."""
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=hidden_sizes, depths=[1, 2], layer_type=kind, num_labels=10
    )
    return transformers.ResNetForImageClassification(config), (3, 32, 32)


def separable(padded):
    """MobileNet: depthwise and 1 x 1 convolutions, ReLU6, both padding rules."""
    config = transformers.MobileNetV1Config(image_size=64, depth_multiplier=0.25, tf_padding=padded, num_labels=10)
    return transformers.MobileNetV1ForImageClassification(config), (3, 64, 64)


def grouped():
    """RegNet: grouped convolutions."""
    config = transformers.RegNetConfig(
        embedding_size=8, hidden_sizes=[16, 32, 32, 32], depths=[1] * 4, groups_width=16, layer_type="x", num_labels=10
    )
    return transformers.RegNetForImageClassification(config), (3, 32, 32)


NETWORKS = {
    "RegNet": grouped,
    "ResNet": lambda: residual("basic", 16, 32),
    "ResNet, bottlenecks": lambda: residual("bottleneck", 16, 32),
    "MobileNet, padding of PyTorch": lambda: separable(False),
    "MobileNet, padding of TensorFlow": lambda: separable(True),
}
LONG = ("ResNet, bottlenecks", "MobileNet, padding of PyTorch")
"""Slow networks, each with a faster sibling."""


@pytest.mark.parametrize("name", with_slow(NETWORKS, LONG))
def test_a_published_network_is_imported(name, logits_of):
    torch.manual_seed(0)
    classifier, shape = NETWORKS[name]()
    module = logits_of(classifier)
    for one in module.modules():
        if isinstance(one, nn.BatchNorm2d):
            nn.init.uniform_(one.running_mean, -0.1, 0.1)
            nn.init.uniform_(one.running_var, 0.5, 1.5)
    network, own = imported(module, shape, name)
    inputs = torch.rand(4, *shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = module(inputs)
        torch.testing.assert_close(own(inputs), expected, rtol=1e-5, atol=1e-5)
    pools = [stage.pool for stage in network.stages if isinstance(stage.pool, MaxPool)]
    if name.startswith("ResNet"):
        assert pools == [MaxPool(3, 2, 1)]
        assert sum(stage.residual is not None for stage in network.stages) == 3
    elif name.startswith("MobileNet"):
        assert sum(isinstance(stage.layer, Depthwise) for stage in network.stages) == 13
    frozen = Converter().stages(folded(network, own))
    found = run(network.stages, frozen, Q8_16.from_float(inputs.numpy()), PRODUCTS["int64"], Narrower())[-1]
    spread = float(expected.std())
    assert np.abs(Q8_16.to_float(found) - expected.numpy()).max() < max(0.05 * spread, 2**-9)


@pytest.mark.slow
def test_no_published_network_is_read_wrongly():
    """Networks of the extra ``campaign``; docs/networks.md tabulates the counts."""
    for package in ("torchvision", "timm", "pytorchcv"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not there: pip install fabtune[campaign]")
    found = campaign()
    others = {name: reason for name, (kind, reason) in found.items() if kind not in (RIGHT, REFUSED)}
    assert others == {}
    assert sum(kind == RIGHT for kind, _ in found.values()) >= 49
