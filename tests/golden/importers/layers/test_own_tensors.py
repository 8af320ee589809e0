"""From a user's tensors to stage parameters and back, under the user's names."""

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.importers.layers.network import imported
from fabtune.golden.importers.layers.own_tensors import StageTensors, own_state, returned, stage_tensors
from fabtune.golden.models.batch_norm import StageParameters
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import preset

from ....own_modules import SHAPES, Convolutional, Residual, drawn


@pytest.fixture(params=SHAPES, ids=lambda make: make.__name__)
def own(request):
    """A user's module, its description, and the description's module."""
    module = drawn(request.param)
    return module, *imported(module, SHAPES[request.param], "mine")


def tuned(network, seed=1):
    """Random Q4.12 integers for all stages, and their values."""
    rng = np.random.default_rng(seed)
    shapes = [(stage.weight_shape, (stage.biases,)) for stage in network.stages]
    integers = [tuple(rng.integers(-3000, 3000, shape) for shape in pair) for pair in shapes]
    return integers, [StageParameters(*(Q4_12.to_float(one) for one in pair)) for pair in integers]


def integers_of(parameters):
    return [[Q4_12.from_float(one.weight), Q4_12.from_float(one.bias)] for one in parameters]


def assert_same(found, expected):
    for pair, wanted in zip(found, expected, strict=True):
        for one, other in zip(pair, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_names_are_the_users_and_fold_to_the_stages(own):
    module, network, description = own
    tensors, state = stage_tensors(network, description), module.state_dict()
    assert {name for one in tensors for name in one.names} <= set(state)
    assert [StageTensors.parse(one.described) for one in tensors] == list(tensors)
    for one, wanted in zip(tensors, folded(network, description), strict=True):
        found = one.folded(state)
        np.testing.assert_array_equal(found.weight, wanted.weight)
        np.testing.assert_array_equal(found.bias, wanted.bias)
    for name, tensor in own_state(description).items():
        assert torch.equal(tensor, state[name]), name


def test_names_of_a_class():
    network, description = imported(drawn(Convolutional), (1, 8, 8), "mine")
    tensors = stage_tensors(network, description)
    assert [one.title for one in tensors] == ["stem.0", "deep.0", "hidden", "head"]
    assert [one.bias_name for one in tensors] == ["stem.0.bias", "deep.0.bias", "hidden.bias", "head.bias"]
    assert tensors[0].bias is None
    assert tensors[0].norm["running_var"] == "stem.1.running_var"
    assert tensors[2].norm["weight"] == "norm.weight"
    assert set(tensors[1].norm) == {"running_mean", "running_var"}


@pytest.mark.parametrize("seed", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in (1, 2))])
@pytest.mark.parametrize("make", SHAPES)
def test_what_returns_is_golden_again_in_every_bit(make, seed):
    """Loaded into the user's module, which is then imported and folded again."""
    module = drawn(make, seed)
    network, description = imported(module, SHAPES[make], "mine")
    integers, values = tuned(network, seed)
    if make is Residual:  # an unfolded batch norm has a factor and a bias per channel; both return
        assert network.stages[-2].weight_shape == (6, 1, 1, 1)
    state = module.state_dict()
    changed = returned(stage_tensors(network, description), values, state)
    assert not [name for name in changed if "running" in name and "weight" in _kinds(name, state)]
    module.load_state_dict({**state, **{name: torch.from_numpy(one) for name, one in changed.items()}})
    assert_same(integers_of(folded(*imported(module, SHAPES[make], "mine"))), integers)


def _kinds(name, state):
    """Tensor kinds of the layer with this tensor."""
    title = name.rpartition(".")[0]
    return {other.rpartition(".")[2] for other in state if other.rpartition(".")[0] == title}


def test_a_channel_of_no_factor_gets_one():
    module = drawn(Convolutional)
    with torch.no_grad():
        module.stem[1].weight[1] = 0
        module.norm.weight[3] = 1e-30
    network, description = imported(module, (1, 8, 8), "mine")
    integers, values = tuned(network)
    state = module.state_dict()
    changed = returned(stage_tensors(network, description), values, state)
    # other values stay unchanged
    kept = np.arange(4) != 1
    np.testing.assert_array_equal(changed["stem.1.weight"][kept], state["stem.1.weight"].numpy()[kept])
    module.load_state_dict({**state, **{name: torch.from_numpy(one) for name, one in changed.items()}})
    assert_same(integers_of(folded(*imported(module, (1, 8, 8), "mine"))), integers)


def test_a_bias_that_a_layer_lacks_returns_beside_it():
    module = nn.Sequential(nn.Linear(64, 8, bias=False), nn.ReLU(), nn.Linear(8, 3))
    network, description = imported(module, (64,), "mine")
    tensors, (_, values) = stage_tensors(network, description), tuned(network)
    assert "0.bias" in returned(tensors, values, module.state_dict())
    values[0] = StageParameters(values[0].weight, np.zeros(8))
    assert set(returned(tensors, values, module.state_dict())) == {"0.weight", "2.weight", "2.bias"}


def test_what_float32_cannot_hold_is_told():
    module = drawn(Convolutional)
    nn.init.constant_(module.norm.running_mean, 1e7)
    network, description = imported(module, (1, 8, 8), "mine")
    with pytest.raises(UserError, match="hidden: its batch norm cannot hold the tuned parameters in float32"):
        returned(stage_tensors(network, description), tuned(network)[1], module.state_dict())


def test_a_factor_below_zero_needs_a_weight():
    module = nn.Sequential(nn.BatchNorm1d(64, affine=False), nn.Linear(64, 3)).eval()
    network, description = imported(module, (64,), "mine")
    tensors, (_, values) = stage_tensors(network, description), tuned(network)
    with pytest.raises(UserError, match="0 has no weight and bias to hold its tuned factors: give it affine=True"):
        returned(tensors, values, module.state_dict())
    values[0] = StageParameters(np.full((64, 1, 1, 1), 0.5), values[0].bias)
    state = module.state_dict()
    changed = returned(tensors, values, state)
    module.load_state_dict({**state, **{name: torch.from_numpy(one) for name, one in changed.items()}})
    assert integers_of(folded(*imported(module, (64,), "mine")))[0][0].reshape(-1).tolist() == [2048] * 64


def test_presets_have_the_names_of_their_own_module():
    network = preset("har")
    module = module_of(network).eval()
    tensors, state = stage_tensors(network, module), module.state_dict()
    assert [one.title for one in tensors] == ["0", "3", "6"]
    integers, values = tuned(network)
    module.load_state_dict(state | {k: torch.from_numpy(v) for k, v in returned(tensors, values, state).items()})
    assert_same(integers_of(folded(network, module)), integers)


def test_a_state_without_a_tensor_is_told():
    network, description = imported(drawn(Convolutional), (1, 8, 8), "mine")
    with pytest.raises(UserError, match=r"the base lacks stem\.0\.weight, from which stem\.0 is folded"):
        stage_tensors(network, description)[0].folded({})
