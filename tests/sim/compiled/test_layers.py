"""A whole job of each trainer on a network with every kind of layer: golden's results and counters; minutes."""

from functools import cache

import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.zo.split import WHOLE, Split
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.cores.instantft.trials import TuningVariation, short_tuning
from fabtune.sim.cores.zotrain.trials import TrainingVariation, short_training

NETWORK = (
    "1x9x8 conv5k4x3p1,0,1,1s2 leaky0.01 conv18k3p1 hswish dw3p1 leaky0.25 conv6k3p1,0,0,2s2x1 conv6k3p1,0,1,1s2x1@1 "
    "add@7,6 relu pool2s1 conv18k1 relu1.5 avg1x3 flatten fc3"
)
# sums of half the lanes and of single lanes, with pools and residuals of their parts
PARTS = (
    "8x7x6 conv8k3p1 leaky0.1 conv8k3p1 add@2,1 relu pool3p1s2 conv20k1 relu dw3p1 add@8,7 relu pool2s1 conv8k1 relu "
    "conv8k3p1 avg3x2 flatten fc3"
)
# the larger gain clips sums, some of them in two windows of a pool
GAINS = [1, 9]


@cache
def _device(spec: InstantftSpec | ZotrainSpec) -> SimulatedDevice:
    return SimulatedDevice(compiled_core(spec))


@pytest.mark.slow
@pytest.mark.parametrize(("network", "gain"), [*((NETWORK, gain) for gain in GAINS), (PARTS, 9)])
def test_adapters_are_tuned(network: str, gain: float) -> None:
    spec = InstantftSpec(network=network, lanes=16, batch=4, cache_entries=16)
    job, device = short_tuning(spec, 3, TuningVariation(gain=gain)), _device(spec)
    driver = job.driver(device)
    job.load(driver)
    assert job.differences(driver, device) == []
    assert (job.counts["saturations"] > 0) == (gain > 1)


@pytest.mark.slow
@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("split", [WHOLE, Split(1, 1, 3), Split(5, 2, 2)])
def test_all_weights_are_tuned(gain: float, split: Split) -> None:
    spec = ZotrainSpec(network=NETWORK, lanes=16, cut_rows=512)
    job, device = short_training(spec, 4, TrainingVariation(gain=gain, split=split)), _device(spec)
    driver = job.driver(device)
    job.load(driver)
    assert job.differences(driver, device) == []
    assert (job.counts["saturations"] > 0) == (gain > 1)


@pytest.mark.slow
def test_a_pass_ends_behind_one_filter_a_channel() -> None:
    # the array still adds the lanes' sums after the sequencer has issued the last word
    spec = ZotrainSpec(network="2x3x3 conv16k1 dw3 relu conv5k1 flatten fc3", lanes=16, columns=2, cut_rows=1024)
    job, device = short_training(spec, 4, TrainingVariation(gain=1, split=Split(2, 1, 2))), _device(spec)
    driver = job.driver(device)
    job.load(driver)
    assert job.differences(driver, device) == []


BEYOND = "2x9x8 conv3k3p1s2 leaky0.01 pool3p1s2 conv5k3p1 relu pool2p0,1,1,0s1 flatten fc3"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "split"),
    [(BEYOND, WHOLE), (BEYOND, Split(1, 2, 2)), (PARTS, WHOLE), (PARTS, Split(2, 1, 2)), (PARTS, Split(4, 2, 2))],
)
def test_pools_have_padding_or_sums_in_parts(network: str, split: Split) -> None:
    spec = ZotrainSpec(network=network, lanes=16, cut_rows=512)
    job, device = short_training(spec, 4, TrainingVariation(gain=9, split=split)), _device(spec)
    driver = job.driver(device)
    job.load(driver)
    assert job.differences(driver, device) == []
    assert job.counts["saturations"] > 0
