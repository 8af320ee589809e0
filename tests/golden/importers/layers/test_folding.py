"""Conversion between descriptions and PyTorch modules, and batch-norm folding."""

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import deployed_module, folded
from fabtune.golden.importers.layers.network import network_of
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import BatchNorm, Convolution, Flatten, Linear, MaxPool
from fabtune.golden.models.module import module_of
from fabtune.golden.models.network import Network, deployed
from fabtune.golden.models.text import NETWORKS

RELU_FIRST = Network(
    "relu-first",
    (2, 9, 9),
    (
        *(Convolution(4, 3, 1), BatchNorm(), Relu(), MaxPool(2), Flatten()),
        *(Linear(7), BatchNorm(), Relu(), Linear(3)),
    ),
)
POOL_FIRST = Network(
    "pool-first",
    (2, 9, 9),
    (Convolution(4, 2), BatchNorm(), MaxPool(3), Relu(), Convolution(5, 2), Relu(), Flatten(), Linear(3)),
)


def trained(module):
    """The module with atypical statistics and scales: negative scales change a max-pool's choice."""
    generator = torch.Generator().manual_seed(5)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.running_mean.normal_(generator=generator)
            layer.running_var.uniform_(0.2, 3, generator=generator)
            if layer.affine:
                nn.init.normal_(layer.weight, generator=generator)
                nn.init.normal_(layer.bias, generator=generator)
    return module.eval()


def samples(network, count=20):
    return torch.randn((count, *network.input_shape), generator=torch.Generator().manual_seed(1))


def by_stages(network, parameters, inputs):
    """Normal form in float64, as in hardware: layer, max-pool, ReLU."""
    x = inputs.double()
    for stage, pair in zip(network.stages, parameters, strict=True):
        weight, bias = torch.from_numpy(pair.weight), torch.from_numpy(pair.bias)
        if isinstance(stage.layer, Convolution):
            x = nn.functional.conv2d(x, weight, bias, padding=stage.layer.padding[::2])
        else:
            x = nn.functional.linear(x.flatten(1), weight, bias)
        x = nn.functional.max_pool2d(x, stage.pool.size) if stage.pool else x
        x = x.relu() if stage.activation else x
    return x.numpy()


@pytest.mark.parametrize("network", [*NETWORKS.values(), RELU_FIRST, POOL_FIRST], ids=lambda one: one.name)
class TestBothWays:
    def test_the_description_of_its_module_is_the_description(self, network):
        assert network_of(module_of(network), network.input_shape, network.name) == network

    def test_folded_parameters_compute_what_the_module_computes(self, network):
        torch.manual_seed(2)
        module = trained(module_of(network))
        expected = module(samples(network)).detach().numpy()
        parameters = folded(network, module)
        np.testing.assert_allclose(by_stages(network, parameters, samples(network)), expected, rtol=1e-5, atol=1e-5)
        plain = deployed_module(network, module)
        np.testing.assert_allclose(plain(samples(network)).detach(), expected, rtol=1e-5, atol=1e-5)

    def test_folded_parameters_have_the_stages_shapes(self, network):
        parameters = folded(network, module_of(network))
        assert [one.weight.shape for one in parameters] == [stage.weight_shape for stage in network.stages]
        assert [one.bias.shape for one in parameters] == [(stage.biases,) for stage in network.stages]
        assert {array.dtype for one in parameters for array in (one.weight, one.bias)} == {np.dtype(np.float64)}


def test_deployed_networks_have_the_stages_without_batch_norm():
    plain = deployed(RELU_FIRST)
    assert not any(stage.batch_norm for stage in plain.stages)
    assert [s.output_shape for s in plain.stages] == [s.output_shape for s in RELU_FIRST.stages]
    assert plain.parameters == RELU_FIRST.parameters


def test_a_deployed_module_draws_no_random_numbers():
    module = module_of(RELU_FIRST)
    before = torch.get_rng_state()
    plain = deployed_module(RELU_FIRST, module)
    assert torch.equal(before, torch.get_rng_state())
    assert all(one.requires_grad and one.dtype == torch.float32 for one in plain.parameters())


def test_folding_copies():
    module = module_of(POOL_FIRST)
    parameters = folded(POOL_FIRST, module)
    kept = parameters[-1].weight.copy()
    nn.init.zeros_(module[-1].weight)
    assert (parameters[-1].weight == kept).all()


def test_a_users_own_module():
    relu = nn.ReLU(inplace=True)  # one module, used twice
    module = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding="same", bias=False), nn.BatchNorm2d(4, affine=False), relu),
        nn.Sequential(nn.Dropout2d(), nn.MaxPool2d((2, 2), stride=2), nn.Conv2d(4, 5, (3, 3), padding="valid")),
        nn.Sequential(
            nn.Identity(), nn.Flatten(), nn.Linear(20, 6, bias=False), relu, nn.Dropout(0.9), nn.Linear(6, 3)
        ),
    )
    network = network_of(module, (1, 8, 8), "mine")
    assert network.layers == (
        *(Convolution(4, 3, 1), BatchNorm(), Relu(), MaxPool(2), Convolution(5, 3)),
        *(Flatten(), Linear(6), Relu(), Linear(3)),
    )
    parameters = folded(network, trained(module))
    expected = module(samples(network)).detach().numpy()
    np.testing.assert_allclose(by_stages(network, parameters, samples(network)), expected, rtol=1e-5, atol=1e-5)
    assert (parameters[2].bias == 0).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("tensor", ["0.weight", "1.running_var", "8.bias"])
def test_a_tensor_with_nan_or_infinity_is_refused_by_name(tensor, value):
    module = module_of(RELU_FIRST)
    module.state_dict()[tensor].view(-1)[1] = value
    with pytest.raises(UserError, match=f"relu-first: {tensor} has NaN or infinity"):
        folded(RELU_FIRST, module)


def test_a_negative_variance_is_refused():
    module = module_of(RELU_FIRST)
    module[1].running_var[2] = -1
    with pytest.raises(UserError, match=r"1\.running_var has a value below -1e-05: a variance is not negative"):
        folded(RELU_FIRST, module)


def test_folding_beyond_float32_is_refused():
    module = module_of(RELU_FIRST)
    nn.init.constant_(module[0].weight, 3e38)
    nn.init.constant_(module[1].weight, 3e38)
    with pytest.raises(UserError, match=r"0\.weight has NaN or infinity"):
        deployed_module(RELU_FIRST, module)


def test_a_module_of_another_network_is_refused():
    with pytest.raises(UserError, match=r"relu-first has weights of .* but the module has"):
        folded(RELU_FIRST, module_of(POOL_FIRST))
