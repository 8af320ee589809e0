"""Example of `instantft`: some epochs of adapters, or of the last layer where that is what the core tunes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.axi.regions import JobMemory, Region
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.cores.instantft.registers import REGISTERS
from ....golden.fixed import Integers, q8_16_of_bytes
from ....golden.lora.adapters import Adapters, rate_of
from ....golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from ....golden.lora.job import Job
from ....golden.lora.last_layer import untuned_layer
from ...example.digits import Digits, as_read, correct
from ...example.job import Example

EPOCHS, BATCH = 10, 20
"""A core of smaller batches has the same rate for a sample."""
RATES = {"adapters": 0.2, "layer": 0.1, "biases": 0.1}
"""By what is tuned, for a batch of `BATCH`."""
PROGRAM = Path(__file__).with_name("example.c")
"""The core's commands in C."""


def example(spec: InstantftSpec, digits: Digits) -> Example:
    """Make the example of a core.

    Parameters
    ----------
    spec : InstantftSpec
    digits : Digits
        Task for its network.
    """
    network, layout, test = spec.described, spec.layout, digits.test
    tune = digits.tune[: spec.cache_entries]
    x, xt = q8_16_of_bytes(tune.inputs), q8_16_of_bytes(test.inputs)
    raw, size = spec.raw_modes[0], min(spec.batch, len(tune), BATCH)
    codec = WordCodec(network) if raw else record_layout(network)
    cache = None if spec.cache == "none" else ForwardCache(network, codec, len(tune))
    rng = np.random.default_rng(2)
    adapters, rate = _initial(spec, rng), rate_of(RATES[spec.tunes], BATCH)
    tuned = [chosen for _ in range(EPOCHS) for chosen in _batches(rng.permutation(len(tune)), size)]
    tested = _batches(np.arange(len(test)), spec.batch)

    memory = JobMemory()
    memory.place(layout.parameters(digits.frozen))
    memory.place(layout.adapters(adapters))
    memory.place(layout.samples(as_read(tune, spec.byte_inputs)), "tune_samples")
    memory.place(layout.order([(one, tune.labels[one]) for one in tuned]), "tune_order")
    memory.place(layout.samples(as_read(test, spec.byte_inputs)), "test_samples")
    memory.place(layout.order([(one, test.labels[one]) for one in tested]), "test_order")
    memory.place(Region.containing("labels", test.labels.astype(np.uint8)))
    memory.place(layout.cache(len(tune), raw))
    memory.place(layout.scratch(), "scratch")
    memory.place(layout.logits(len(test)))

    job = Job(network, digits.frozen, adapters, rate, cache, spec.noise)
    before = correct(job.logits(xt), test.labels)
    for one in tuned:
        job.batch(x[one], tune.labels[one], one)
    after = correct(job.logits(xt), test.labels)
    settings = {
        "tune_count": len(tune),
        "epochs": EPOCHS,
        "tune_batch": size,
        "test_count": len(test),
        "test_batch": spec.batch,
        "rate": rate,
        "mode": REGISTERS["mode"].field("raw").mask * raw,
    }
    stride = spec.mapping.logit_beats * BEAT // 4
    return Example(spec, before, after, len(test), network.classes, stride, settings, PROGRAM, memory)


def _initial(spec: InstantftSpec, rng: np.random.Generator) -> Adapters:
    """Adapters at the start, which change nothing."""
    shape = spec.mapping.shape
    if shape.selects:
        return untuned_layer(shape)
    a = [rng.normal(0, width**-0.5, (shape.rank, width)) for width in shape.inputs]
    return Adapters.of(shape, a, [np.zeros((shape.classes, shape.rank))] * len(a))


def _batches(order: Integers, size: int) -> list[Integers]:
    return np.split(order, range(size, len(order), size))
