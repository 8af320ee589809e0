"""Module of a description: layers, residuals, names, partial networks."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import deployed_module
from fabtune.golden.importers.layers.network import network_of
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import network_from, text_of

NETWORK = network_from(
    "2x8x8 conv4k3p1 relu conv4k3p1 norm add@3,1 relu dw3p1,0,0,1s2 conv4k1s2@5 add@6,7 relu "
    "avg2 conv5k3p1 pool2 flatten dw1 relu fc3"
)
PLAIN = "2x8x8 conv4k3p1 relu conv4k3p1 norm add@3,1 relu conv5k3 relu flatten fc3"


@pytest.fixture
def module():
    torch.manual_seed(0)
    return module_of(NETWORK).eval()


def test_layers_run_as_functions_of_pytorch_do(module):
    x = torch.randn(3, 2, 8, 8)
    conv = functional.conv2d
    with torch.no_grad():
        one = conv(x, module[0].weight, module[0].bias, padding=1).relu()
        two = conv(one, module[2].weight, module[2].bias, padding=1) / (1 + 1e-5) ** 0.5
        three = (two + one).relu()
        four = conv(functional.pad(three, (0, 1, 1, 0)), module[6].weight, module[6].bias, 2, groups=4)
        five = (four + conv(three, module[7].weight, module[7].bias, 2)).relu()
        six = conv(functional.avg_pool2d(five, 2), module[11].weight, module[11].bias, padding=1)
        six = functional.max_pool2d(six, 2)
        seven = (six.flatten(1) * module[14].weight.flatten() + module[14].bias).relu()
        expected = functional.linear(seven, module[16].weight, module[16].bias)
        torch.testing.assert_close(module(x), expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(module.outputs(x)[-1], module(x))


def test_its_description_is_that_of_the_network():
    network = network_from(text_of(NETWORK).replace(" dw1 relu", ""))
    assert network_of(module_of(network), network.input_shape, network.name) == network


def test_names_are_the_numbers_of_the_layers(module):
    weighted = {0, 2, 6, 7, 11, 14, 16}
    names = {f"{number}.{kind}" for number in weighted for kind in ("weight", "bias")}
    assert names | {f"3.{kind}" for kind in nn.BatchNorm2d(4).state_dict()} == set(module.state_dict())
    assert module.titles == [str(number) for number in range(17)]
    assert all(mine == theirs for mine, theirs in module.tensor_names.items())


def test_a_deployed_module_computes_the_same(module):
    module[3].running_mean.normal_()
    x = torch.randn(3, 2, 8, 8)
    torch.testing.assert_close(deployed_module(NETWORK, module)(x), module(x), rtol=1e-5, atol=1e-5)


def test_parts_compute_what_the_whole_does():
    module = module_of(network_from(PLAIN)).eval()
    x = torch.randn(3, 2, 8, 8)
    for cut in (0, 1, 2, 6, 8):
        first, second = module[:cut], module[cut:]
        assert torch.equal(second(first(x) if cut else x), module(x))
        assert len([*first.parameters()]) + len([*second.parameters()]) == len([*module.parameters()])


@pytest.mark.parametrize("cut", [3, 4])
def test_a_cut_inside_a_residual_is_refused(cut):
    message = f"a network is not cut before layer {cut}: layer 4 reads layer 1"
    with pytest.raises(UserError, match=message):
        module_of(network_from(PLAIN))[cut:]
