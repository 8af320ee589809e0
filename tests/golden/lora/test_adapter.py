"""`adapter` compared with the integer job on the same adapters."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Narrower
from fabtune.golden.lora.adapter import AdapterBatch, AdapterSpec
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.lora.job import Job
from fabtune.golden.nn.arithmetic.forward import StageIntegers, forward
from fabtune.golden.nn.arithmetic.products import product_of

SPEC = AdapterSpec(inputs=(20, 37), classes=5, batch=6, lanes=16)
PAIRED = AdapterSpec(inputs=(20, 37), classes=5, batch=6, lanes=16, rank=3, columns=8)
WIDE = AdapterSpec(inputs=(20, 37), classes=40, batch=6, lanes=16)
TARGETED = AdapterSpec(inputs=(20, 37), classes=20, batch=6, lanes=16, loss="mse")


@pytest.mark.parametrize("spec", [SPEC, PAIRED, WIDE, TARGETED])
def test_batches_equal_the_integer_job(spec):
    rng = np.random.default_rng(0)
    network = spec.network
    frozen = [
        StageIntegers(rng.integers(-900, 900, stage.weight_shape), rng.integers(-900, 900, stage.biases))
        for stage in network.stages
    ]
    flat = rng.integers(-900, 900, spec.mapping.shape.parameters)
    job = Job(network, frozen, Adapters(spec.mapping.shape, flat), 9000, loss=spec.loss)
    load = {"load": spec.load_words(Adapters(spec.mapping.shape, flat))}
    given, logits, beats = [], [], []
    for count in (6, 2, 1):
        x = rng.integers(-(1 << 17), 1 << 17, (count, 20))
        labels = rng.integers(0, spec.mapping.labels, count)
        seen = [x]
        for stage, own in zip(network.stages, frozen, strict=True):
            seen.append(forward(stage, own, seen[-1], product_of("int64"), Narrower()))
        given.append(spec.batch_words(AdapterBatch(seen[:-1], seen[-1], labels, 9000)))
        logits.append(job.batch(x, labels, np.arange(count)).logits.reshape(-1))
        beats.append(spec.load_words(job.adapters)["parameter"])
    joined = {
        port: {name: np.concatenate([one[port][name] for one in given]) for name in given[0][port]} for port in given[0]
    }
    found = spec.run(load | joined, 1 << 20)
    assert np.array_equal(found["logits"]["logit"][:, 0], np.concatenate(logits))
    assert np.array_equal(found["o"]["parameter"], np.concatenate(beats))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inputs": ()}, "inputs = "),
        ({"inputs": (5, 0)}, "inputs = "),
        ({"classes": 1}, "classes = 1"),
        ({"classes": 257}, "257 classes; the core takes at most 256"),
        ({"classes": 37, "loss": "mse"}, "has 37 outputs for 120 inputs"),
        ({"rank": 5}, "rank = 5"),
        ({"batch": 1}, "batch = 1"),
        ({"lanes": 24}, "lanes = 24"),
        ({"columns": 32}, "columns = 32"),
    ],
)
def test_wrong_parameters_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        AdapterSpec(**settings)
