"""Networks of MLPerf Tiny in the RTL of both trainers: golden's results and counters."""

import importlib.util
from pathlib import Path

import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.importers.layers.network import network_of
from fabtune.golden.models.network import deployed
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.cores.instantft.trials import TuningVariation, short_tuning
from fabtune.sim.cores.zotrain.trials import TrainingVariation, short_training

EXAMPLE = Path(__file__).parents[3] / "docs/examples/mlperf_tiny.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def networks():
    """Descriptions imported from the example's modules."""
    found = importlib.util.spec_from_file_location("mlperf_tiny", EXAMPLE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return {name: deployed(network_of(build().eval(), shape, name)) for name, (build, shape) in module.NETWORKS.items()}


def check(job, device):
    driver = job.driver(device)
    job.load(driver)
    assert job.differences(driver, device) == []


def loss_of(name):
    return "mse" if name == "autoencoder" else "cross_entropy"


@pytest.mark.parametrize("name", ["resnet8", "ds_cnn", "autoencoder"])
def test_adapters_are_tuned_for_a_batch(name, networks):
    spec = InstantftSpec.of(networks[name], lanes=32, batch=2, cache_entries=16, loss=loss_of(name))
    job = short_tuning(spec, 3, TuningVariation(samples=2, epochs=1))
    check(job, SimulatedDevice(compiled_core(spec)))


@pytest.mark.parametrize("name", ["resnet8", "ds_cnn", "autoencoder"])
def test_all_weights_are_tuned_for_a_step(name, networks):
    spec = ZotrainSpec.of(networks[name], lanes=32, loss=loss_of(name))
    job = short_training(spec, 4, TrainingVariation(samples=2, sizes=(2,)))
    check(job, SimulatedDevice(compiled_core(spec)))


def test_a_whole_job_of_adapters_for_keywords(networks):
    spec = InstantftSpec.of(networks["ds_cnn"], lanes=32, batch=10, cache_entries=64)
    job = short_tuning(spec, 5, TuningVariation(samples=48, epochs=5))
    assert job.counts["batches"] == 25
    check(job, SimulatedDevice(compiled_core(spec)))


def test_a_whole_job_of_all_weights_for_keywords(networks):
    spec = ZotrainSpec.of(networks["ds_cnn"], lanes=32)
    job = short_training(spec, 6, TrainingVariation(samples=24, sizes=(8,) * 10))
    assert job.counts["steps_done"] == 10
    check(job, SimulatedDevice(compiled_core(spec)))
