"""Jobs of both trainers on networks with concatenations and groups: golden's results and counters; minutes."""

from functools import cache

import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.zo.split import WHOLE, Split
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.cores.instantft.trials import TuningVariation, short_tuning
from fabtune.sim.cores.zotrain.trials import TrainingVariation, short_training

pytestmark = pytest.mark.slow

NETWORKS = {
    "fire": "2x8x8 conv6k3p1 relu pool2 conv5k1 relu conv7k1 relu conv9k3p1@4 relu cat@6,8 conv4k1 relu conv8k1 avg4 "
    "conv8k3p1@11 avg4 cat@13,15 flatten fc3",
    "dense": "2x6x6 conv5k3p1 relu dw1 relu conv3k3p1 cat@1,4 dw1 relu conv4k3p1 cat@5,8 dw1 relu conv6k1 avg2 "
    "flatten fc3",
    "groups": "4x6x6 conv8k3p1g2 relu conv24k1 relu conv24k3p1g2 relu cat@5,1 conv32k3p1s2g2 pool2 flatten fc3",
    # a kernel, a residual, a vector and another kernel, all on parts of a concatenation
    "parts": "3x6x5 conv15k3p1 relu conv7k3p1 relu cat@1,3 conv6k3p1 relu conv4k2@3 pool2 conv5k1x3@1 flatten fc5 "
    "flatten@8 fc5 add@13,11 flatten@6 fc4 cat@14,16 fc3",
}
# without a cut, and with a cut after which all input comes from one stage
SPLITS = [
    *(("fire", WHOLE), ("fire", Split(1, 1, 2)), ("fire", Split(5, 2, 1)), ("dense", WHOLE), ("dense", Split(1, 2, 2))),
    *(("groups", WHOLE), ("groups", Split(1, 1, 1)), ("parts", WHOLE)),
]


@cache
def device(spec):
    return SimulatedDevice(compiled_core(spec))


def check(job, spec):
    driver = job.driver(device(spec))
    job.load(driver)
    assert job.differences(driver, device(spec)) == []


@pytest.mark.parametrize("rank", [4, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_adapters_are_tuned(name, rank):
    # at half the rank an adapter reads two words at once; the parts have odd numbers of words
    spec = InstantftSpec(network=NETWORKS[name], lanes=16, batch=4, cache_entries=16, rank=rank)
    for gain in (1, 9):
        job = short_tuning(spec, 3, TuningVariation(samples=6, epochs=2, gain=gain))
        check(job, spec)
        assert job.counts["saturations"] > 0 or gain == 1


def test_the_last_layer_is_tuned_that_reads_a_concatenation():
    spec = InstantftSpec(network=NETWORKS["fire"], lanes=16, batch=4, cache_entries=16, rank=2, tunes="layer")
    check(short_tuning(spec, 3, TuningVariation(samples=6, epochs=3)), spec)


@pytest.mark.parametrize(("name", "split"), SPLITS)
def test_all_weights_are_tuned(name, split):
    spec = ZotrainSpec(network=NETWORKS[name], lanes=16, cut_rows=512)
    for gain in (1, 9):
        job = short_training(spec, 4, TrainingVariation(samples=6, sizes=(3, 3), gain=gain, split=split))
        check(job, spec)
        assert job.counts["saturations"] > 0 or gain == 1


# -- of the size of MLPerf Tiny ----------------------------------------------------------------------------------------


def fire(words, squeezed, outputs, pool=()):
    at = len(words)
    one, three = (f"conv{outputs}k1", "relu", *pool), (f"conv{outputs}k3p1@{at + 1}", "relu", *pool)
    ends = at + 1 + len(one), at + 1 + len(one) + len(three)
    return [*words, f"conv{squeezed}k1", "relu", *one, *three, f"cat@{ends[0]},{ends[1]}"]


def dense(words, growth):
    at = len(words)
    return [*words, "dw1", "relu", f"conv{growth}k3p1", f"cat@{at - 1},{at + 2}"]


def bottleneck(words, inner, outputs, groups):
    at = len(words)
    inside = f"conv{inner}k1", "relu", f"conv{inner}k3p1g{groups}", "relu", f"conv{outputs}k1", f"add@{at + 4},{at - 1}"
    return [*words, *inside, "relu"]


def squeezenet():
    words = fire(fire(["conv32k3p1s2", "relu", "pool2"], 8, 16), 8, 16, ("pool2",))
    return " ".join(["3x32x32", *fire(words, 16, 32), "conv16k1", "relu", "avg4", "flatten", "fc10"])


def densenet():
    words = ["conv16k3p1", "pool2"]
    for _ in range(3):
        words = dense(words, 12)
    words += ["dw1", "relu", "conv26k1", "avg2"]
    for _ in range(3):
        words = dense(words, 12)
    return " ".join(["3x32x32", *words, "dw1", "relu", "avg8", "flatten", "fc10"])


def resnext():
    words = bottleneck(bottleneck(["conv32k3p1s2", "relu"], 32, 32, 8), 32, 32, 2)
    return " ".join(["3x32x32", *words, "avg16", "flatten", "fc10"])


LARGER = {"SqueezeNet": squeezenet(), "DenseNet": densenet(), "ResNeXt": resnext()}


@pytest.mark.parametrize("name", LARGER)
def test_adapters_of_a_larger_network_are_tuned_for_a_batch(name):
    spec = InstantftSpec(network=LARGER[name], lanes=32, batch=2, cache_entries=16)
    check(short_tuning(spec, 3, TuningVariation(samples=2, epochs=1)), spec)


@pytest.mark.parametrize("name", LARGER)
def test_all_weights_of_a_larger_network_are_tuned_for_a_step(name):
    spec = ZotrainSpec(network=LARGER[name], lanes=32)
    check(short_training(spec, 4, TrainingVariation(samples=2, sizes=(2,))), spec)
