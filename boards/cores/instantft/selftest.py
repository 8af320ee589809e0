"""Self-test of `instantft`: adapters in and out, the cache record of a sample, a batch, an epoch, an inference."""

from __future__ import annotations

import numpy as np

from ....golden.cores.adapters.registers import RAW, WRITE_LOGITS, Command
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.lora.adapters import Adapters
from ...example.task import ExampleTask, start_of
from ...selftest.job import SelfTest
from ...selftest.played import PlayedSelfTest

SAMPLES, BATCH = 6, 3
RATE = 5243
"""Learning rate of a sample: 0.01 for batches of eight."""


def selftest(spec: InstantftSpec, seed: int = 1, task: ExampleTask | None = None) -> SelfTest:
    """Self-test of a core with random parameters and samples, or with a task's parameters and first samples."""
    rng = np.random.default_rng(seed)
    mapping, layout = spec.mapping, spec.layout
    batch = min(BATCH, spec.batch)
    frozen, inputs, _, labels = start_of(spec, min(SAMPLES, spec.cache_entries), rng, task)
    samples = len(labels)
    flat = np.rint(1500 * rng.normal(0, 1, mapping.shape.parameters)).astype(np.int64).clip(-32768, 32767)
    start = Adapters(mapping.shape, flat)
    batches = [np.arange(first, min(first + batch, samples)) for first in range(0, samples, batch)]

    script = PlayedSelfTest(spec)
    address = {region.register: script.place(region) for region in (layout.parameters(frozen), layout.adapters(start))}
    address["samples"] = script.place(layout.samples(inputs))
    address["order"] = script.place(layout.order([(indices, labels[indices]) for indices in batches]))
    address["cache"] = script.place(layout.cache(samples, raw=False))
    address["logits"] = script.place(layout.logits(samples))
    saved, scratch = script.place(layout.adapters(), "saved"), script.place(layout.scratch(), "scratch")
    raw = spec.raw_modes[0]
    records = {"cache": "records of the cache"} if spec.cache == "dram" else {}

    def save(name: str) -> None:
        script.play(name, Command.SAVE_ADAPTERS, {"adapters": saved}, {"adapters": "adapters"})

    def tune(name: str, sizes: list[int]) -> None:
        settings = {register: address[register] for register in ("samples", "order", "cache", "logits")}
        settings |= {
            "cache_entries": samples,
            "samples_per_epoch": sum(sizes),
            "epochs": 1,
            "batch": sizes[0],
            "rate": RATE,
            "mode": WRITE_LOGITS.mask | RAW.mask * raw,
        }
        script.play(name, Command.TUNE, settings, {"logits": "logits", **records}, trains=True)

    load, sizes = {"adapters": address["adapters"]}, [len(indices) for indices in batches]
    script.play("forget the cache", Command.FORGET, {})
    script.play("load the network", Command.LOAD, {"parameters": address["parameters"]})
    script.play("load adapters", Command.LOAD_ADAPTERS, load)
    save("save the same adapters")
    tune("record one sample", [1])
    script.play("load adapters again", Command.LOAD_ADAPTERS, load)
    tune("tune one batch", sizes[:1])
    save("save its adapters")
    tune("tune one epoch", sizes)
    save("save the epoch's adapters")
    infer = {"cache": scratch, "samples_per_epoch": samples, "epochs": 1, "batch": batch, "mode": 0}
    script.play("infer", Command.INFER, infer, {"logits": "logits"})
    script.test.copies("load adapters", "save the same adapters")
    return script.test
