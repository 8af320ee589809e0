"""Zeroth-order runs of networks in a core's integers: results, names, refusals, delta files."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

from fabtune.golden.datasets.dataset import Samples, Task
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.importers.layers.network import network_of
from fabtune.golden.models.checkpoint import load_saved
from fabtune.golden.train.zo.delta_file import Delta
from fabtune.golden.train.zo.finetune import FineTuning, ZoSettings
from fabtune.golden.train.zo.integer import (
    IntegerTuning,
    IntegerZerothOrder,
    check_settings,
    core_settings,
    eps_shift_of,
)
from fabtune.golden.train.zo.methods import start_of
from fabtune.golden.train.zo.network_objective import NetworkObjective
from fabtune.golden.train.zo.schedule import Schedule


def clouds(count, seed, shift=0.0):
    """Samples of two classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    centres = np.where(labels[:, None], 1.0, -1.0) + shift
    return Samples((centres + rng.normal(0, 0.7, (count, 6))).astype(np.float32), labels)


TASK = Task("clouds", clouds(80, 0), clouds(70, 1, 0.3), clouds(80, 2, 0.3))
SETTINGS = core_settings(ZoSettings("pezo-otf", 2e-2, 2.0**-10, Schedule(120, 16)))


def module_of(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*(layers or (nn.Sequential(nn.Linear(6, 32), nn.ReLU()), nn.Dropout(), nn.Linear(32, 2))))


def tuning_of(settings=SETTINGS, module=None, lanes=16, columns=2):
    module = (module or module_of()).eval()
    return IntegerTuning(network_of(module, (6,), "clouds"), module, TASK, settings, lanes, columns)


@pytest.mark.parametrize("method", ["pezo-otf", "pezo-pool"])
def test_a_network_learns(method):
    tuning, progress = tuning_of(core_settings(replace(SETTINGS, method=method))), []
    result = tuning.run(lambda *what: progress.append(what), watch=50)
    assert result.loss_last < 0.7 * result.loss_first
    assert result.accuracy_after > 0.85 > result.accuracy_before
    assert [step for step, _ in result.curve] == [0, 50, 100, 120]
    assert [number for number, _, _ in progress] == list(range(1, 121))
    assert [loss for _, loss, _ in progress] == result.losses
    assert [(number, right) for number, _, right in progress if right is not None] == result.curve[1:]
    assert (result.engine, result.saturations) == ("golden", 0)
    assert result.directions == {"pezo-otf": 7905, "pezo-pool": 511}[method]
    assert result.trained_parameters == 6 * 32 + 32 + 32 * 2 + 2


def test_a_run_is_the_integer_jobs_from_its_seeds_position():
    tuning = tuning_of(replace(SETTINGS, schedule=Schedule(20, 16, seed=3)))
    module = module_of().eval()
    network = network_of(module, (6,), "clouds")
    start = start_of(SETTINGS.source(), 3)
    arguments = network, folded(network, module), SETTINGS.source().spec, TASK.tune, Schedule(20, 16, 3), 2e-2
    other = IntegerZerothOrder(*arguments, position=start, lanes=16, columns=2)
    assert start > 0
    tuning.run()
    other.run()
    assert np.array_equal(tuning.integers.job.total, other.job.total)
    assert other.job.total.any()


def test_tuned_parameters_are_named_as_in_the_modules_state():
    module = module_of()
    state = {name: one.clone() for name, one in module.state_dict().items()}
    tuning = tuning_of(module=module)
    tensors = tuning.run().tensors
    assert list(tensors) == list(state) == ["0.0.weight", "0.0.bias", "2.weight", "2.bias"]
    assert all(torch.equal(one, state[name]) for name, one in module.state_dict().items())
    for name, one in tensors.items():
        assert one.dtype == np.float32
        assert one.shape == tuple(state[name].shape)
        assert np.array_equal(Q4_12.to_float(Q4_12.from_float(one)), one)
        assert (one != state[name].numpy()).any()
    module.load_state_dict({name: torch.from_numpy(one) for name, one in tensors.items()})
    with torch.no_grad():
        logits = module.eval()(torch.from_numpy(TASK.test.inputs)).numpy()
    assert np.mean(logits.argmax(axis=1) == TASK.test.labels) == pytest.approx(tuning.accuracy(), abs=0.02)


FOLDED = {
    "batch norm": (nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2)),
    "no bias": (nn.Linear(6, 32, bias=False), nn.ReLU(), nn.Linear(32, 2)),
}


@pytest.mark.parametrize("name", FOLDED)
def test_batch_norm_folds_and_returns(name, tmp_path):
    """The saved state is the module's own, plus a bias it lacks; a delta reproduces it from the base."""
    module = module_of(*FOLDED[name]).eval()
    state = {key: one.clone() for key, one in module.state_dict().items()}
    tuning = tuning_of(replace(SETTINGS, schedule=Schedule(20)), module)
    result = tuning.run()
    assert set(result.tensors) == {*state, *(["0.bias"] if name == "no bias" else [])}
    assert result.trained_parameters == 6 * 32 + 32 + 32 * 2 + 2
    if name == "batch norm":
        module.load_state_dict({key: torch.from_numpy(np.array(one)) for key, one in result.tensors.items()})
        for mine, golden in zip(
            folded(network_of(module, (6,), "clouds"), module),
            tuning.integers.model.tuned(tuning.integers.job),
            strict=True,
        ):
            assert np.array_equal(Q4_12.from_float(mine.weight), golden.weight)
            assert np.array_equal(Q4_12.from_float(mine.bias), golden.bias)
    tuning.delta().save(tmp_path / "d.safetensors")
    found = Delta.load(tmp_path / "d.safetensors").applied(state)
    assert found.keys() == result.tensors.keys()
    assert all(np.array_equal(one.numpy(), result.tensors[key]) for key, one in found.items())
    other = state | {"0.weight": state["0.weight"] + 1e-6}
    with pytest.raises(UserError, match="another base"):
        Delta.load(tmp_path / "d.safetensors").applied(other)


def test_what_no_batch_norm_holds_is_saved_folded():
    module = module_of(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2)).eval()
    nn.init.constant_(module[1].running_mean, 1e9)
    tuning = tuning_of(replace(SETTINGS, schedule=Schedule(2)), module)
    names = {f"{layer}.folded_{kind}" for layer in "03" for kind in ("weight", "bias")}
    assert set(tuning.run().tensors) == names


def test_other_records_take_the_place_of_the_runs():
    one, two = (tuning_of(replace(SETTINGS, schedule=Schedule(20, 16, seed))) for seed in (0, 1))
    one.run()
    one.replay(two.integers.run())
    assert np.array_equal(one.integers.job.total, two.integers.job.total)
    assert np.array_equal(one.delta().total, two.delta().total)


# -- deltas -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run():
    """A short run: base, tuned tensors, delta."""
    base = module_of().state_dict()
    tuning = tuning_of(replace(SETTINGS, schedule=Schedule(40, 16)))
    tensors = tuning.run().tensors
    return base, tensors, tuning.delta(), tuning


def test_base_and_delta_are_the_tuned_parameters(run, tmp_path):
    base, tensors, delta, tuning = run
    assert np.array_equal(delta.total, tuning.integers.job.total)
    delta.save(tmp_path / "d.safetensors")
    again = Delta.load(tmp_path / "d.safetensors")
    assert (again.order, again.source, again.parameters) == (delta.order, delta.source, delta.parameters)
    found = again.applied(base | {"other": torch.ones(3)})
    assert found["other"].tolist() == [1, 1, 1]
    for name, one in tensors.items():
        assert np.array_equal(found[name].numpy(), one)
    assert again.described()["order"] == "array of 16 x 2, 6 fc32 relu fc2"
    assert load_saved(tmp_path / "d.safetensors")[1]["layout"] == "fabtune-delta-array-1"


def test_runs_on_one_array_add_up(run):
    base, tensors, one, _ = run
    other = tuning_of(replace(SETTINGS, schedule=Schedule(40, 16, 1)))
    other.run()
    both = one.plus(other.delta())
    found = both.plus(other.delta(), -1).applied(base)
    assert all(np.array_equal(found[name].numpy(), tensors[name]) for name in tensors)
    assert (both.total != one.total).any()


def test_deltas_of_other_arrays_networks_and_orders_are_not_added(run):
    _, _, one, _ = run
    wide = tuning_of(replace(SETTINGS, schedule=Schedule(1, 16)), columns=4)
    wide.run()
    with pytest.raises(UserError, match="deltas of different source"):
        one.plus(wide.delta())
    with pytest.raises(UserError, match="deltas of different order"):
        one.plus(replace(one, order=None))
    with pytest.raises(UserError, match="this is another base"):
        one.applied({name: tensor + 1 for name, tensor in module_of().state_dict().items()})


DAMAGES = {
    "no array": (lambda metadata: {key: one for key, one in metadata.items() if key != "array"}, "damaged delta file"),
    "array": (lambda metadata: metadata | {"array": "16"}, "damaged delta file"),
    "another array": (lambda metadata: metadata | {"array": "32 x 2"}, "a delta of an array of 32 x 2 has lanes"),
    "no such array": (lambda metadata: metadata | {"array": "17 x 2"}, "lanes = 17"),
    "network": (lambda metadata: metadata | {"network": "6 fc31 relu fc2"}, "a delta of '6 fc31 relu fc2' has"),
    "no network": (lambda metadata: metadata | {"network": "six"}, "does not describe a network"),
    "format": (lambda metadata: metadata | {"format": "Q5.27"}, "has lanes, fraction and format"),
    "fraction": (lambda metadata: metadata | {"fraction": "9"}, "has lanes, fraction and format"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(damage, run, tmp_path):
    path = tmp_path / "d.safetensors"
    run[2].save(path)
    change, refusal = DAMAGES[damage]
    save_file(load_file(path), path, change(load_saved(path)[1]))
    with pytest.raises(UserError, match=refusal):
        Delta.load(path)


def test_the_text_of_a_file_is_readable(run, tmp_path):
    run[2].save(tmp_path / "d.safetensors")
    metadata = load_saved(tmp_path / "d.safetensors")[1]
    assert (metadata["network"], metadata["array"], metadata["lanes"]) == ("6 fc32 relu fc2", "16 x 2", "32")
    assert json.loads(metadata["parameters"])[0] == ["0.0.weight", [32, 6]]


# -- settings ---------------------------------------------------------------------------------------------------------


def test_a_core_takes_a_pool_of_511_rows_of_33_numbers():
    settings = core_settings(ZoSettings("pezo-pool"))
    assert settings.engine == "golden"
    assert (settings.source().spec.width, settings.source().spec.period) == (33, 511)
    smaller = core_settings(ZoSettings("pezo-pool", parameters=("pool.size=8415",)))
    assert (smaller.source().spec.width, smaller.source().spec.period) == (33, 255)
    assert core_settings(ZoSettings("pezo-pool", parameters=("pool.p=65",))).source().spec.width == 65
    assert core_settings(ZoSettings("pezo-otf", engine="rtl")).engine == "rtl"


@pytest.mark.parametrize("shift", range(4, 13))
def test_eps_is_a_power_of_two(shift):
    assert eps_shift_of(2.0**-shift) == shift


@pytest.mark.parametrize("eps", [1e-3, 2.0**-13, 2.0**-3, 1.0, 0.75 * 2.0**-9])
def test_another_eps_is_refused(eps):
    with pytest.raises(UserError, match=r"is a power of two from 0\.000244140625 to 0\.0625, such as 0\.0009765625"):
        eps_shift_of(eps)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"queries": 2}, "queries = 2: a core counts perturbations of a step with --p1"),
        ({"eps": 1e-3}, "eps = 0.001"),
        ({"schedule": Schedule(3, 257)}, "batch = 257: a core's step has at most 256"),
        ({"rate": 1e12}, "a learning rate of"),
        ({"method": "mezo", "engine": None}, "a core tunes all parameters as integers, which mezo does not"),
        ({"method": "sparse-zo"}, "which sparse-zo does not"),
        ({"engine": "float"}, "which pezo-otf does not"),
    ],
)
def test_what_a_core_cannot_run_is_refused(changes, says):
    with pytest.raises(UserError, match=says):
        check_settings(replace(SETTINGS, **changes), 1000)


def test_the_objective_of_any_module_has_no_core():
    with pytest.raises(UserError, match="--engine rtl is for a network of layers"):
        FineTuning(NetworkObjective(module_of(), TASK), replace(SETTINGS, engine="rtl"))
