"""Networks published with transformers, in the RTL of both trainers: golden's results and counters."""

import pytest
import transformers

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.importers.layers.network import network_of
from fabtune.golden.models.network import deployed
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.cores.instantft.trials import TuningVariation, short_tuning
from fabtune.sim.cores.zotrain.trials import TrainingVariation, short_training

pytestmark = pytest.mark.slow


def resnet():
    sizes = {"embedding_size": 8, "hidden_sizes": [16, 24], "depths": [1, 1]}
    return transformers.ResNetForImageClassification(
        transformers.ResNetConfig(**sizes, layer_type="basic", num_labels=10)
    )


def mobilenet():
    config = transformers.MobileNetV1Config(image_size=32, depth_multiplier=0.1, num_labels=10)
    return transformers.MobileNetV1ForImageClassification(config)


CLASSIFIERS = {"ResNet": resnet, "MobileNet": mobilenet}


@pytest.fixture(params=CLASSIFIERS)
def network(request, logits_of):
    return deployed(network_of(logits_of(CLASSIFIERS[request.param]()), (3, 32, 32), request.param))


def check(job, spec):
    device = SimulatedDevice(compiled_core(spec))
    driver = job.driver(device)
    job.load(driver)
    assert job.differences(driver, device) == []


def test_adapters_are_tuned_for_a_batch(network):
    spec = InstantftSpec.of(network, lanes=16, batch=2, cache_entries=16)
    check(short_tuning(spec, 3, TuningVariation(samples=2, epochs=1)), spec)


def test_all_weights_are_tuned_for_a_step(network):
    spec = ZotrainSpec.of(network, lanes=16)
    check(short_training(spec, 4, TrainingVariation(samples=2, sizes=(2,))), spec)
