"""Short jobs of autoencoders and many classes on the compiled cores: golden's results and counters."""

import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.trials.jobs import short_jobs

pytestmark = pytest.mark.slow

NETWORK = "40 fc6 relu fc40"


def check(spec, clipped):
    """Run all short jobs of a core in sequence."""
    device = SimulatedDevice(compiled_core(spec))
    for name, job in short_jobs(spec).items():
        driver = job.driver(device)
        job.load(driver)
        assert job.differences(driver, device) == [], name
        assert name != "clipped" or all(job.counts[one] > 0 for one in clipped)


def test_all_weights_are_tuned():
    check(ZotrainSpec(network=NETWORK, lanes=16, columns=2, loss="mse", byte_inputs=False), ["saturations"])


def test_all_weights_are_tuned_with_samples_of_bytes_and_convolutions():
    network = "2x5x5 conv7k3p1 relu flatten fc33 relu fc50"
    check(ZotrainSpec(network=network, lanes=16, deltas="ultra", loss="mse"), ["saturations", "coefficients_clipped"])


def test_adapters_are_tuned():
    spec = InstantftSpec(network=NETWORK, lanes=16, columns=4, rank=2, batch=4, cache_entries=64, loss="mse")
    check(spec, ["saturations"])


def test_adapters_are_tuned_on_16_columns():
    check(InstantftSpec(network=NETWORK, lanes=16, columns=16, batch=4, cache_entries=64, loss="mse"), ["saturations"])


def test_adapters_of_more_classes_than_lanes_are_tuned():
    network = "1x6x6 conv3k3 relu flatten fc40"
    check(InstantftSpec(network=network, lanes=16, rank=2, batch=4, cache_entries=64, ports=2), ["saturations"])


@pytest.mark.parametrize("kind", [InstantftSpec, ZotrainSpec])
def test_as_many_classes_as_a_label_has_values(kind):
    more = {"batch": 4, "cache_entries": 64, "rank": 2} if kind is InstantftSpec else {}
    check(kind(network="20 fc6 relu fc256", lanes=16, columns=2, **more), ["saturations"])
