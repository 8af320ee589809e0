"""Engines compared with PyTorch's gradients and with each other."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.datasets.dataset import Samples, Task
from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import deployed_module, folded
from fabtune.golden.lora.adapters import rate_of
from fabtune.golden.lora.mseloss import rate_scale
from fabtune.golden.models.module import module_of
from fabtune.golden.models.network import deployed
from fabtune.golden.models.text import network_from, preset
from fabtune.golden.train.adapters.integer import IntegerEngine
from fabtune.golden.train.adapters.methods import METHODS, adapter_shapes
from fabtune.golden.train.adapters.tune import STOCHASTIC, AdapterSettings, AdapterTuning, engine_of
from fabtune.golden.train.metrics import mean_squared_error

SAMPLES = 30
RESIDUAL = (
    "1x8x8 conv4k3p1 relu conv4k3p1 norm add@3,1 relu conv6k3p1s2 conv6k1s2@5 add@6,7 relu6 dw3p1 relu avg2 flatten "
    "fc12 relu fc4"
)
"""A residual, two branches, a depthwise convolution and an average pool."""


def material(name="digits", seed=0):
    """A network with untrained weights, batch norm statistics and samples."""
    network = network_from(RESIDUAL) if name == "residual" else preset(name)
    torch.manual_seed(seed)
    module = module_of(network)
    for layer in module:
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.3)
            layer.running_var.uniform_(0.5, 2)
    rng = np.random.default_rng(seed)
    if len(network.input_shape) == 3:
        inputs = rng.integers(0, 256, (SAMPLES, *network.input_shape)).astype(np.uint8)
    else:
        inputs = rng.normal(0, 1, (SAMPLES, *network.input_shape)).astype(np.float32)
    return network, module.eval(), Samples(inputs, rng.integers(0, network.classes, SAMPLES))


def run(engine, samples, epochs=4):
    for _ in range(epochs):
        for indices in np.split(np.arange(SAMPLES), [10, 20]):
            engine.batch(samples[indices], indices)
    return engine.tensors()


def by_autograd(network, module, samples, settings, epochs=4):
    """Adapters from every layer's input to the logits, trained by PyTorch autograd."""
    frozen = deployed_module(network, module)
    start = engine_of(network, module, settings, SAMPLES).tensors()
    count = len(network.stages)
    a = [torch.tensor(np.array(start[f"adapter.{at}.a"]), requires_grad=True) for at in range(count)]
    b = [torch.tensor(np.array(start[f"adapter.{at}.b"]), requires_grad=True) for at in range(count)]
    optimiser = torch.optim.SGD([*a, *b], lr=settings.rate)
    for _ in range(epochs):
        for indices in np.split(np.arange(SAMPLES), [10, 20]):
            values, taps = [torch.from_numpy(samples[indices].values())], []
            for layer, read in zip(frozen, deployed(network).reads, strict=True):
                given = [values[at + 1] for at in read]
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    taps.append(given[0].flatten(1).detach())
                values.append(layer(*given))
            logits = values[-1].detach() + sum(tap @ one.T @ two.T for tap, one, two in zip(taps, a, b, strict=True))
            loss = functional.cross_entropy(logits, torch.from_numpy(samples.labels[indices]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    named = [(f"adapter.{at}.{which}", one) for which, all_ in (("a", a), ("b", b)) for at, one in enumerate(all_)]
    return {name: one.detach().numpy() for name, one in named}


@pytest.mark.parametrize("name", ["digits", "fan", "residual"])
@pytest.mark.parametrize("method", ["skip-lora", "skip2-lora"])
def test_skip_adapters_follow_autograd(name, method):
    network, module, samples = material(name)
    settings = AdapterSettings(method, "float", rate=0.05, batch=10)
    found = run(engine_of(network, module, settings, SAMPLES), samples)
    expected = by_autograd(network, module, samples, settings)
    for key, value in expected.items():
        assert np.abs(found[key] - value).max() < 1e-4 * max(1, np.abs(value).max()), key
    assert max(np.abs(found[f"adapter.{at}.b"]).max() for at in range(3)) > 0.01


@pytest.mark.parametrize("name", ["digits", "fan", "residual"])
@pytest.mark.parametrize("method", ["lora-fa", "lora-all"])
def test_parallel_adapters_follow_autograd(name, method):
    """Hooks add B A x to each layer's output, A with or without gradient."""
    network, module, samples = material(name)
    settings = AdapterSettings(method, rate=0.05, batch=10)
    engine = engine_of(network, module, settings, SAMPLES)
    start = engine.tensors()
    found = run(engine, samples)
    parts, layers = {}, {at: layer for at, layer in enumerate(module) if isinstance(layer, nn.Conv2d | nn.Linear)}
    for at, layer in layers.items():
        layer.requires_grad_(False)
        a, b = parts[at] = [torch.tensor(start[f"{at}.{which}"]) for which in "ab"]
        a.requires_grad_(method == "lora-all")
        b.requires_grad_(True)
        layer.register_forward_hook(lambda _, x, y, a=a, b=b: y + (x[0].flatten(1) @ a.T @ b.T).reshape(y.shape))
    optimiser = torch.optim.SGD([one for pair in parts.values() for one in pair if one.requires_grad], lr=settings.rate)
    for _ in range(4):
        for indices in np.split(np.arange(SAMPLES), [10, 20]):
            logits = module(torch.from_numpy(samples[indices].values()))
            optimiser.zero_grad()
            functional.cross_entropy(logits, torch.from_numpy(samples.labels[indices])).backward()
            optimiser.step()
    assert {*found} == {f"{at}.{which}" for at in parts for which in "ab"}
    for at, (a, b) in parts.items():
        assert np.array_equal(found[f"{at}.a"], start[f"{at}.a"]) == (method == "lora-fa")
        for which, one in (("a", a), ("b", b)):
            error = np.abs(found[f"{at}.{which}"] - one.detach().numpy()).max()
            assert error <= 1e-4 * np.abs(found[f"{at}.{which}"]).max(), (at, which)
    assert max(np.abs(found[f"{at}.b"]).max() for at in parts) > 0.004


def test_a_fixed_a_is_saved_and_not_counted():
    network, module, samples = material("fan")
    settings = AdapterSettings("lora-fa", epochs=2, rate=0.1, patience=1)
    result = AdapterTuning(network, module, Task("fan", samples, samples, samples), settings).run()
    shapes = adapter_shapes(network, METHODS["lora-fa"])
    assert result.trained_parameters == sum(4 * one.outputs for one in shapes) == 4 * (96 + 96 + 3)
    assert sum(one.size for one in result.tensors.values()) == sum(one.parameters for one in shapes)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        *((one, "digits") for one in ("skip-lora", "skip2-lora", "instantft", "lora-last", "ft-last", "ft-bias-last")),
        *((one, "residual") for one in ("instantft", "ft-last")),
    ],
)
def test_integers_follow_floats(method, name):
    network, module, samples = material(name)
    tensors = {}
    for engine in ("float", "golden"):
        one = engine_of(network, module, AdapterSettings(method, engine, rate=0.5, batch=10), SAMPLES)
        tensors[engine] = run(one, samples), one.logits(samples)
    logits = tensors["float"][1]
    moved = np.abs(logits - engine_of(network, module, AdapterSettings(method), SAMPLES).logits(samples)).max()
    # Q4.12 parameters are off by up to 2**-13, smaller updates are lost, and NF4 codes may differ
    error = np.abs(tensors["golden"][1] - logits).max()
    assert error < 0.2 * moved, (error, moved)
    assert moved > 0.02


@pytest.mark.parametrize(
    ("method", "engine"),
    [("ft-all", "float"), ("skip-lora", "float"), ("skip-lora", "golden"), ("lora-last", "golden")],
)
def test_a_factor_is_another_rate(method, engine):
    network, module, samples = material()
    indices = np.arange(SAMPLES)
    whole, half = (
        engine_of(network, module, AdapterSettings(method, engine, rate=rate), SAMPLES) for rate in (0.1, 0.05)
    )
    for factor in (0.5, 0.5, 0.25):
        whole.batch(samples, indices, factor)
        half.batch(samples, indices, 2 * factor)
    for name, one in whole.tensors().items():
        # in integers 0.1 / 20 is odd
        assert np.abs(one - half.tensors()[name]).max() <= (1 if engine == "golden" else 1e-6), name


@pytest.mark.parametrize("name", ["fan", "residual"])
def test_parallel_adapters_change_nothing_before_training(name):
    network, module, samples = material(name)
    plain = module(torch.from_numpy(samples.values())).detach().numpy()
    for method in METHODS:
        engine = engine_of(network, module, AdapterSettings(method), SAMPLES)
        assert np.abs(engine.logits(samples) - plain).max() < 1e-4, method


@pytest.mark.parametrize("method", METHODS)
def test_trains_what_the_method_says_and_leaves_the_module_alone(method):
    network, module, samples = material("fan")
    before = {name: one.clone() for name, one in module.state_dict().items()}
    tensors = run(engine_of(network, module, AdapterSettings(method, rate=0.1), SAMPLES), samples)
    own = {"all": 3, "last": 1, "none": 0}
    expected = own[METHODS[method].weights] + own[METHODS[method].biases]
    expected += 2 * len(adapter_shapes(network, METHODS[method]))
    assert len(tensors) == expected
    assert all(torch.equal(one, before[name]) for name, one in module.state_dict().items())


@pytest.mark.parametrize("method", ["instantft", "skip2-lora"])
@pytest.mark.parametrize("engine", ["float", "golden"])
def test_cache_has_the_size_that_the_method_says(method, engine):
    network, module, samples = material()
    one = engine_of(network, module, AdapterSettings(method, engine), SAMPLES)
    run(one, samples, epochs=1)
    assert one.cache_bytes == SAMPLES * {"instantft": 125, "skip2-lora": 4 * (128 + 32 + 10)}[method]


def test_clipped_values_of_the_conversion_are_counted():
    network, module, _ = material("fan")
    assert engine_of(network, module, AdapterSettings(engine="golden"), SAMPLES).saturations == 0
    with torch.no_grad():
        module[0].bias[:5] = 1000.0
    assert engine_of(network, module, AdapterSettings(engine="golden"), SAMPLES).saturations == 5


def test_stochastic_rounding_is_the_urngs():
    network, module, samples = material()
    settings = AdapterSettings(engine="golden", stochastic=True, rate=0.05)
    results = [run(engine_of(network, module, settings, SAMPLES), samples) for _ in range(2)]
    nearest = run(engine_of(network, module, AdapterSettings(engine="golden", rate=0.05), SAMPLES), samples)
    assert all(np.array_equal(results[0][name], results[1][name]) for name in nearest)
    assert any(not np.array_equal(results[0][name], nearest[name]) for name in nearest)
    assert engine_of(network, module, settings, SAMPLES).job.noise.urng == STOCHASTIC


def test_refusals():
    with pytest.raises(UserError, match="LoRA-All changes more than the last layer"):
        AdapterSettings("lora-all", "golden")
    with pytest.raises(UserError, match="LoRA-FA changes more than the last layer"):
        AdapterSettings("lora-fa", "golden")
    with pytest.raises(UserError, match="no method 'lora'; there are: ft-all"):
        AdapterSettings("lora")
    with pytest.raises(UserError, match="no engine 'verilog'; there are: float, golden, rtl"):
        AdapterSettings(engine="verilog")
    with pytest.raises(UserError, match="floats are not rounded"):
        AdapterSettings(stochastic=True)
    with pytest.raises(UserError, match="rate = nan"):
        AdapterSettings(rate=float("nan"))
    with pytest.raises(UserError, match="epochs = 0: at least 1"):
        AdapterSettings(epochs=0)


@pytest.mark.parametrize("method", ["instantft", "skip2-lora", "skip-lora"])
def test_an_autoencoder_lowers_its_error(method):
    torch.manual_seed(0)
    network, rng = network_from("20 fc6 relu fc20"), np.random.default_rng(0)
    module = module_of(network)
    inputs = (rng.normal(0, 1, (SAMPLES, 3)) @ rng.normal(0, 0.6, (3, 20))).astype(np.float32)
    a = [rng.normal(0, 0.3, (4, count)).astype(np.float32) for count in (20, 6)]
    rate, samples = rate_of(0.5 * rate_scale(20), 10), Samples(inputs, np.full(SAMPLES, 99))
    engine = IntegerEngine(network, folded(network, module), METHODS[method], a, 4, rate, SAMPLES, loss="mse")
    before = mean_squared_error(engine.logits(samples), inputs)
    run(engine, samples, epochs=20)
    assert mean_squared_error(engine.logits(samples), inputs) < 0.5 * before
