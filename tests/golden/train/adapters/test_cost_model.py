"""InstantFT's table 1, entry by entry."""

import pytest

from fabtune.golden.models.text import preset
from fabtune.golden.train.adapters.cost_model import cost
from fabtune.golden.train.adapters.methods import METHODS

TABLE_1 = {
    # method: trainable parameters, forward, backward (millions), memory (KB) for MNIST, then for SVHN
    "ft-all": (61706, "0.851", "1.444", "567.8", 62006, "1.321", "1.914", "579.4"),
    "ft-last": (850, "0.851", "0.002", "285.8", 850, "1.321", "0.002", "296.1"),
    "ft-bias": (236, "0.851", "0.611", "322.0", 236, "1.321", "0.611", "332.3"),
    "lora-all": (36328, "0.923", "0.743", "611.8", 45480, "1.412", "0.762", "695.4"),
    "lora-last": (376, "0.852", "0.001", "285.4", 376, "1.322", "0.001", "295.8"),
    "instantft": (10456, "0.872", "0.036", "366.2", 19608, "1.360", "0.054", "449.8"),
}


@pytest.mark.parametrize("method", TABLE_1)
@pytest.mark.parametrize(("network", "first"), [("lenet5-mnist", 0), ("lenet5-svhn", 4)])
def test_table_1_as_printed(method, network, first):
    found = cost(preset(network), METHODS[method])
    printed = (
        found.trainable_parameters,
        f"{found.forward_flops / 1e6:.3f}",
        f"{found.backward_flops / 1e6:.3f}",
        f"{found.memory_bytes / 1000:.1f}",
    )
    assert printed == TABLE_1[method][first : first + 4]


def test_what_instantft_needs_backward_is_less_than_printed():
    mnist, svhn = (cost(preset(f"lenet5-{name}"), METHODS["instantft"]) for name in ("mnist", "svhn"))
    assert (mnist.backward_flops, mnist.backward_flops_needed) == (35_552, 21_312)
    assert (svhn.backward_flops, svhn.backward_flops_needed) == (53_856, 39_616)
    assert mnist.forward_flops - mnist.forward_flops_on_a_hit == 850_794


def test_caches():
    network = preset("lenet5-mnist")
    assert cost(network, METHODS["instantft"]).cache_bytes == 995
    assert cost(network, METHODS["skip2-lora"]).cache_bytes == 7160
    assert cost(network, METHODS["skip-lora"]).cache_bytes == 0
    assert cost(preset("fan"), METHODS["skip2-lora"]).cache_bytes == 4 * (96 + 96 + 3)


@pytest.mark.parametrize("network", ["fan", "har", "digits"])
def test_methods_compare_as_they_must(network):
    costs = {name: cost(preset(network), method) for name, method in METHODS.items()}
    assert costs["ft-all-lora"].trainable_parameters == sum(
        costs[name].trainable_parameters for name in ("ft-all", "lora-all")
    )
    assert costs["skip-lora"].backward_flops_needed < costs["lora-all"].backward_flops / 4
    assert costs["skip2-lora"].forward_flops_on_a_hit < costs["skip2-lora"].forward_flops / 4
    assert costs["skip-lora"].memory_bytes == costs["skip2-lora"].memory_bytes


def test_a_fixed_a_costs_no_gradient_of_its_own():
    fixed, whole = (cost(preset("fan"), METHODS[name]) for name in ("lora-fa", "lora-all"))
    inputs, outputs = (256, 96, 96), (96, 96, 3)
    assert fixed.forward_flops == whole.forward_flops
    assert whole.trainable_parameters - fixed.trainable_parameters == 4 * sum(inputs)
    # dA of each adapter; dh of the first, whose input has no gradient
    assert whole.backward_flops - fixed.backward_flops == 2 * 4 * (sum(inputs) + outputs[0])


def test_rank_scales_the_adapters():
    network = preset("fan")
    assert cost(network, METHODS["instantft"], 8).trainable_parameters == 2 * 1828
