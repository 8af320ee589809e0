"""Tuned networks exported: PyTorch and ONNX compared with golden integers, tuned tensors bit by bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

from fabtune.golden.datasets.dataset import Samples, Task
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12, Q8_16, Narrower
from fabtune.golden.importers.layers.folding import described, folded
from fabtune.golden.importers.layers.network import network_of, user_network
from fabtune.golden.models.batch_norm import StageParameters
from fabtune.golden.models.checkpoint import load_saved, save_state
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import network_from, preset
from fabtune.golden.nn.arithmetic.forward import StageIntegers, run
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.train.adapters.tune import AdapterSettings, AdapterTuning
from fabtune.golden.train.conversion import Converter
from fabtune.golden.train.tuned.bound import logit_bound
from fabtune.golden.train.tuned.export import export, integers_of, program_of
from fabtune.golden.train.tuned.network import LowRankAdapter, TunedNetwork
from fabtune.golden.train.tuned.onnx_file import model_of
from fabtune.golden.train.tuned.run_file import Run, by_title, run_metadata
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer import IntegerTuning, core_settings
from fabtune.golden.train.zo.schedule import Schedule

from ....own_modules import SHAPES, Convolutional, Residual, drawn, perceptron

RNG = np.random.default_rng(3)


def samples_of(shape, count):
    return Samples(RNG.normal(0, 0.5, (count, *shape)).astype(np.float32), RNG.integers(0, 3, count))


TASKS = {shape: Task("noise", *(samples_of(shape, count) for count in (1, 40, 60))) for shape in {*SHAPES.values()}}


def tuned_by(tmp_path, module, shape, method, engine):
    """Tune a module, save and read the run; returns the run, and the tuning."""
    network, task = network_of(module, shape, "mine"), TASKS[shape]
    if method == "pezo-otf":
        settings = core_settings(ZoSettings(method, 1e-2, 2.0**-10, Schedule(4, 8)))
        tuning = IntegerTuning(network, module, task, settings, 16, 2)
        tensors = tuning.run().tensors
    else:
        tuning = AdapterTuning(network, module, task, AdapterSettings(method, engine, epochs=2, rate=0.2, rank=2))
        tensors = by_title(network, tuning.stages, tuning.state, tuning.run().tensors)
    metadata = run_metadata("mine.py:build", "", shape, 1.0, tuning.stages, tuning.state)
    save_state(tmp_path / "run.safetensors", tensors, metadata | {"method": method, "engine": engine}, force=True)
    run = Run.load(tmp_path / "run.safetensors")
    return TunedNetwork.of(network, module, run), tuning


def logits_of(tuning, samples):
    """Float logits of the tuning itself."""
    if isinstance(tuning, IntegerTuning):
        return Q8_16.to_float(tuning.integers.job.logits(Converter().samples(samples)))
    return tuning.engine.logits(samples)


def cases(methods, *quick):
    """All modules and methods; slow except the ResNet, with every kind of batch norm, by the quick methods."""
    return [
        pytest.param(make, one, marks=[] if make is Residual and one in quick else pytest.mark.slow)
        for make in SHAPES
        for one in methods
    ]


INTEGERS = ("instantft", "lora-last", "ft-last", "ft-bias-last", "pezo-otf")


@pytest.mark.parametrize(("make", "method"), cases(INTEGERS, "instantft", "pezo-otf"))
def test_golden_again_in_every_bit_and_pytorch_within_the_bound(tmp_path, make, method):
    module, shape = drawn(make), SHAPES[make]
    tuned, tuning = tuned_by(tmp_path, module, shape, method, "golden")
    samples = TASKS[shape].test
    expected = logits_of(tuning, samples)
    inputs = Converter().samples(samples)
    for rank in (1, 2):
        np.testing.assert_array_equal(Q8_16.to_float(tuned.job(rank).logits(inputs)).astype(np.float32), expected)
    assert (expected != logits_of(AdapterTuning(tuning.network, module, TASKS[shape], ONE), samples)).any()
    with torch.no_grad():
        found = tuned.module()(torch.from_numpy(samples.values())).double().numpy()
    bound = logit_bound(tuned, samples)
    assert np.abs(found - expected).max() <= bound.max() < 0.1
    assert (np.abs(found - expected) <= bound).all()


ONE = AdapterSettings("ft-bias-last", "golden", epochs=1, rate=0.2)


@pytest.mark.parametrize(("make", "method"), cases(("ft-last", "ft-bias-last", "lora-last", "pezo-otf"), "pezo-otf"))
def test_a_state_dict_for_the_users_own_class(tmp_path, make, method):
    """Loaded strictly, its batch norm folds to the golden integers."""
    module, shape = drawn(make), SHAPES[make]
    tuned, tuning = tuned_by(tmp_path, module, shape, method, "golden")
    export(tuned, "pytorch", tmp_path / "mine.pt")
    theirs = make()
    theirs.load_state_dict(torch.load(tmp_path / "mine.pt", weights_only=True))
    parameters = folded(tuning.network, theirs.eval())
    for mine, golden in zip(parameters, tuned.merged().parameters, strict=True):
        tolerance = 2.0**-14 if method == "pezo-otf" else 2.0**-13
        np.testing.assert_allclose(mine.weight, golden.weight, atol=tolerance)
        if method == "pezo-otf":
            np.testing.assert_array_equal(Q4_12.from_float(mine.weight), np.rint(golden.weight * 4096))
            np.testing.assert_array_equal(Q4_12.from_float(mine.bias), np.rint(golden.bias * 4096))
    samples = TASKS[shape].test
    with torch.no_grad():
        found = theirs(torch.from_numpy(samples.values())).numpy()
    np.testing.assert_allclose(found, logits_of(tuning, samples), atol=logit_bound(tuned, samples).max())
    export(tuned, "pytorch", tmp_path / "mine.safetensors")
    assert load_saved(tmp_path / "mine.safetensors")[0].keys() == module.state_dict().keys()


FLOAT = ("instantft", "lora-all", "lora-fa", "ft-all", "ft-bias", "ft-all-lora", "ft-last")


@pytest.mark.parametrize(("make", "method"), cases(FLOAT, "ft-all"))
def test_float_runs_return(tmp_path, make, method):
    module, shape = drawn(make), SHAPES[make]
    tuned, tuning = tuned_by(tmp_path, module, shape, method, "float")
    samples = TASKS[shape].test
    with torch.no_grad():
        found = tuned.module()(torch.from_numpy(samples.values())).numpy()
    np.testing.assert_allclose(found, tuning.engine.logits(samples), rtol=1e-4, atol=1e-4)
    if (method.startswith("ft-") and "lora" not in method) or (make is perceptron and method != "instantft"):
        theirs = make()
        theirs.load_state_dict({name: torch.from_numpy(np.array(one)) for name, one in tuned.tensors().items()})
        with torch.no_grad():
            found = theirs.eval()(torch.from_numpy(samples.values())).numpy()
        np.testing.assert_allclose(found, tuning.engine.logits(samples), rtol=1e-4, atol=1e-4)
    else:
        with pytest.raises(UserError, match=r"part of no layer's weights: a program has them, -o FILE\.pt2"):
            tuned.tensors()
    with pytest.raises(UserError, match="has no integers"):
        integers_of(tuned)


@pytest.mark.parametrize(
    ("make", "method"),
    [
        pytest.param(Convolutional, "instantft", marks=pytest.mark.slow),
        (Residual, "lora-all"),
        pytest.param(perceptron, "instantft", marks=pytest.mark.slow),
    ],
)
def test_programs_and_onnx_run_the_adapters(tmp_path, make, method):
    shape = SHAPES[make]
    tuned, _ = tuned_by(tmp_path, drawn(make), shape, method, "float" if method == "lora-all" else "golden")
    samples = TASKS[shape].test.values()
    with torch.no_grad():
        expected = tuned.module()(torch.from_numpy(samples)).numpy()
    (found,) = ReferenceEvaluator(model_of(tuned)).run(None, {"input": samples})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    export(tuned, "pytorch", tmp_path / "mine.pt2")
    program = torch.export.load(tmp_path / "mine.pt2")
    for count in (1, 2, 60):
        again = program.module()(torch.from_numpy(samples[:count])).detach().numpy()
        np.testing.assert_allclose(again, expected[:count], rtol=1e-5, atol=1e-6)
    names = {name for one in tuned.merged().adapters for name in _names(tuned.stages[one.stage].title)}
    assert names
    assert names <= set(program.state_dict)
    assert names <= {one.name for one in model_of(tuned).graph.initializer}
    assert tuned.stages[0].weight_name in program.state_dict


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_exports_are_networks_again(tmp_path, ending):
    """With unfolded norms of maps, features and reordered features, and adapters."""
    tuned = adapted(drawn(Normed))
    samples = torch.from_numpy(RNG.normal(0, 1, (5, 1, 8, 8)).astype(np.float32))
    for own in (tuned, replace(tuned, adapters=())):
        export(own, "onnx" if ending == "onnx" else "pytorch", path := tmp_path / f"tuned.{ending}")
        network, module = user_network(str(path), None)
        with torch.no_grad():
            torch.testing.assert_close(module(samples), own.module()(samples), rtol=1e-4, atol=1e-5)
        assert network.classes == 3


class Normed(nn.Module):
    """Batch norms after ReLUs and after a channels-last flatten."""

    def __init__(self):
        super().__init__()
        self.conv, self.maps, self.features = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm1d(144)
        self.hidden, self.norm, self.head = nn.Linear(144, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.features(self.maps(torch.relu(self.conv(x))).permute(0, 2, 3, 1).flatten(1))
        return self.head(self.norm(torch.relu(self.hidden(x))))


def adapted(module):
    """A network with two adapters on convolution and norm, added to the logits."""
    sizes = {0: 64, 2: 144}
    adapters = [
        LowRankAdapter(at, RNG.normal(0, 0.1, (2, inputs)), RNG.normal(0, 1, (3, 2)), skips=True)
        for at, inputs in sizes.items()
    ]
    return replace(TunedNetwork.of(network_of(module, (1, 8, 8), "mine"), module), adapters=tuple(adapters))


def _names(title):
    return f"{title}.lora_a", f"{title}.lora_b"


@pytest.mark.parametrize("name", ["digits", "har"])
def test_presets_as_onnx(name):
    network = preset(name)
    torch.manual_seed(0)
    module = module_of(network).eval()
    tuned = TunedNetwork.of(network, module)
    values = RNG.normal(0, 1, (3, *network.input_shape)).astype(np.float32)
    (found,) = ReferenceEvaluator(model_of(tuned)).run(None, {"input": values})
    with torch.no_grad():
        np.testing.assert_allclose(found, module(torch.from_numpy(values)).numpy(), rtol=1e-4, atol=1e-5)


def test_concatenations_and_groups_as_onnx_and_within_the_bound():
    network = network_from("2x6x6 conv4k3p1 relu conv6k3p1g2 relu cat@1,3,-1 conv6k1g3 pool2 flatten fc3")
    torch.manual_seed(0)
    module = module_of(network).eval()
    tuned, values = TunedNetwork.of(network, module), RNG.uniform(-1, 1, (5, 2, 6, 6)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(values)).numpy()
    (found,) = ReferenceEvaluator(model_of(tuned)).run(None, {"input": values})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    integers = [StageIntegers(*map(Q4_12.from_float, (one.weight, one.bias))) for one in tuned.parameters]
    rounded = [StageParameters(one.weight / 4096, one.bias / 4096) for one in integers]
    tuned = replace(tuned, parameters=tuple(rounded))
    golden = run(network.stages, integers, Q8_16.from_float(values), product_of("blas"), Narrower())[-1] / 65536
    off = np.abs(golden - tuned.module()(torch.from_numpy(values)).detach().numpy())
    assert (off <= logit_bound(tuned, Samples(values, np.zeros(5, np.int64)))).all()
    assert off.max() > 0


def test_layers_with_limits_slopes_and_padding_as_onnx():
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3, (2, 1), 1), nn.ReLU6(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 4, 3, padding=1, groups=4),
        nn.LeakyReLU(0.1), nn.AvgPool2d(2), nn.Flatten(), nn.BatchNorm1d(8), nn.Linear(8, 3),
    ).eval()  # fmt: skip
    tuned = TunedNetwork.of(network_of(module, (1, 8, 8), "mine"), module)
    values = RNG.normal(0, 3, (5, 1, 8, 8)).astype(np.float32)
    (found,) = ReferenceEvaluator(model_of(tuned)).run(None, {"input": values})
    with torch.no_grad():
        np.testing.assert_allclose(found, module(torch.from_numpy(values)).numpy(), rtol=1e-4, atol=1e-5)


def test_a_hard_swish_leaves_and_returns_and_is_within_the_bound(tmp_path):
    network = network_from("2x6x6 conv4k3p1 hswish pool2 conv6k3 hswish flatten fc3")
    torch.manual_seed(0)
    module = module_of(network).eval()
    tuned, values = TunedNetwork.of(network, module), RNG.normal(0, 3, (5, 2, 6, 6)).astype(np.float32)
    for suffix, kind in (("onnx", "onnx"), ("pt2", "pytorch")):
        path = tmp_path / f"mine.{suffix}"
        export(tuned, kind, path)
        returned, own = user_network(str(path), None)
        assert returned.layers == network.layers
        with torch.no_grad():
            torch.testing.assert_close(own(torch.from_numpy(values)), module(torch.from_numpy(values)))
    integers = [StageIntegers(*map(Q4_12.from_float, (one.weight, one.bias))) for one in tuned.parameters]
    rounded = [StageParameters(one.weight / 4096, one.bias / 4096) for one in integers]
    tuned = replace(tuned, parameters=tuple(rounded))
    golden = run(network.stages, integers, Q8_16.from_float(values), product_of("blas"), Narrower())[-1] / 65536
    off = np.abs(golden - tuned.module()(torch.from_numpy(values)).detach().numpy())
    assert (off <= logit_bound(tuned, Samples(values, np.zeros(5, np.int64)))).all()
    assert off.max() > 0


@pytest.mark.parametrize(("suffix", "kind"), [("onnx", "onnx"), ("pt2", "pytorch")])
def test_all_layers_leave_and_return_with_equal_integers(tmp_path, suffix, kind):
    network = network_from(
        "2x9x9 conv4k3p1 leaky0.03 pool3p1s2 dw3p1 relu0.3 conv4k1 add@5,2 relu conv4k3p1g2 hswish cat@9,7 "
        "conv4k3p1 leaky0.1 pool2p0,1,1,0 conv6k1 avg3 flatten fc3"
    )
    torch.manual_seed(0)
    tuned = TunedNetwork.of(network, module_of(network).eval())
    integers = [StageIntegers(*map(Q4_12.from_float, (one.weight, one.bias))) for one in tuned.parameters]
    rounded = [StageParameters(one.weight / 4096, one.bias / 4096) for one in integers]
    export(replace(tuned, parameters=tuple(rounded)), kind, path := tmp_path / f"mine.{suffix}")
    returned, own = user_network(str(path), None)
    assert returned.layers == network.layers
    again = [
        StageIntegers(*map(Q4_12.from_float, (one.weight, one.bias)))
        for one in folded(returned, described(returned, own))
    ]
    values = Q8_16.from_float(RNG.normal(0, 3, (5, 2, 9, 9)))
    expected, found = (
        run(one.stages, parameters, values, product_of("blas"), Narrower())[-1]
        for one, parameters in ((network, integers), (returned, again))
    )
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 10


def test_integers_have_their_formats(tmp_path):
    tuned, tuning = tuned_by(tmp_path, drawn(Convolutional), (1, 8, 8), "instantft", "golden")
    export(tuned, "npz", tmp_path / "mine.npz")
    with np.load(tmp_path / "mine.npz") as file:
        found = dict(file)
    assert str(found["network"]) == "1x8x8 conv4k3 relu conv4k3 relu pool2 flatten fc8 relu fc3"
    assert '"stem.0.lora_a": "Q4.12"' in str(found["formats"])
    for own, one in zip(tuned.stages, tuning.engine.job.frozen, strict=True):
        np.testing.assert_array_equal(found[own.weight_name], one.weight)
        np.testing.assert_array_equal(found[own.bias_name], one.bias)
    for own, (a, b) in zip(tuned.stages, tuning.engine.job.adapters.pairs(), strict=True):
        np.testing.assert_array_equal(found[f"{own.title}.lora_a"], a)
        np.testing.assert_array_equal(found[f"{own.title}.lora_b"], b)


@pytest.mark.slow
def test_a_tuned_last_layer_has_wide_integers(tmp_path):
    wide, _ = tuned_by(tmp_path, drawn(Convolutional), (1, 8, 8), "ft-last", "golden")
    assert integers_of(wide)["head.weight"].dtype == np.int32
    assert '"head.weight": "Q20.12"' in str(integers_of(wide)["formats"])


def test_a_tuned_bias_that_a_layer_lacks_needs_a_program(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 8, bias=False), nn.ReLU(), nn.Linear(8, 3)).eval()
    tuned, _ = tuned_by(tmp_path, module, (64,), "pezo-otf", "golden")
    with pytest.raises(UserError, match=r"your network has no 0\.bias, and the tuned one is not 0: .*\.pt2"):
        tuned.tensors()
    assert "0.bias" in program_of(tuned).state_dict


def test_other_weights_and_files_are_refused(tmp_path):
    module = drawn(Convolutional)
    tuned_by(tmp_path, module, (1, 8, 8), "instantft", "golden")
    run, other = Run.load(tmp_path / "run.safetensors"), drawn(Convolutional, seed=5)
    network = network_of(module, (1, 8, 8), "mine")
    with pytest.raises(UserError, match="started from other weights: theirs have the digest"):
        TunedNetwork.of(network, other, run)
    assert Run.load(tmp_path).path == run.path
    odd = replace(
        run, tensors=run.tensors | {"stem.0.values": np.zeros(1)}, metadata=run.metadata | {"method": "sparse-zo"}
    )
    with pytest.raises(
        UserError, match=r"has stem\.0\.values, which is no tensor of this network: weights that sparse-zo"
    ):
        TunedNetwork.of(network, module, odd)
    a, b = (run.tensors[f"stem.0.lora_{half}"] for half in "ab")
    for change, says in (
        ({"stem.0.lora_a": a[:, 1:]}, r"stem\.0\.lora_a is \(2, 63\), the network's is \(2, 64\)"),
        ({"stem.0.lora_b": b.T}, r"stem\.0\.lora_b is \(2, 3\), the network's is \(3, 2\)"),
        ({"stem.0.lora_b": b * np.nan}, r"stem\.0\.lora_b is float32 with NaN or infinity"),
        ({"stem.0.lora_b": b > 0}, r"stem\.0\.lora_b is bool"),
    ):
        with pytest.raises(UserError, match=says):
            TunedNetwork.of(network, module, replace(run, tensors=run.tensors | change))
    half = {name: one for name, one in run.tensors.items() if name != "stem.0.lora_a"}
    with pytest.raises(UserError, match=r"has one of stem\.0\.lora_a and stem\.0\.lora_b: save both"):
        TunedNetwork.of(network, module, replace(run, tensors=half))
    with pytest.raises(UserError, match="does not say the shape of a sample"):
        _ = replace(run, metadata={}).shape
    save_state(tmp_path / "state.safetensors", {"a": np.zeros(1)}, {}, force=True)
    with pytest.raises(UserError, match="is no run of a network of layers"):
        Run.load(tmp_path / "state.safetensors")
    with pytest.raises(UserError, match=r"has 2 files \.safetensors, not that of one run"):
        Run.load(tmp_path)
    assert replace(run, metadata={}).integers is False
