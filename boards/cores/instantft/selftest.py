"""Self-test of `instantft`: adapters in and out, one sample's record, one batch, one epoch, an inference."""

from __future__ import annotations

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.cores.instantft.registers import REGISTERS, Command
from ....golden.lora.adapters import Adapters
from ....golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from ....golden.lora.images import cache_image, logits_image
from ....golden.lora.job import Job
from ...example.task import ExampleTask, start_of
from ...selftest.job import SelfTest

SAMPLES, BATCH = 6, 3
RATE = 5243
"""Learning rate of a sample: 0.01 for batches of eight."""


def selftest(spec: InstantftSpec, seed: int = 1, task: ExampleTask | None = None) -> SelfTest:
    """Make the self-test of a core, with random parameters and samples, or with a task's and the first of its samples.

    Longer than most: its stages go on from one job.

    Parameters
    ----------
    spec : InstantftSpec
    seed : int
    task : ExampleTask, optional
    """
    rng = np.random.default_rng(seed)
    network, mapping, layout = spec.described, spec.mapping, spec.layout
    batch = min(BATCH, spec.batch)
    frozen, inputs, x, labels = start_of(spec, min(SAMPLES, spec.cache_entries), rng, task)
    samples = len(labels)
    flat = np.rint(1500 * rng.normal(0, 1, mapping.shape.parameters)).astype(np.int64).clip(-32768, 32767)
    start = Adapters(mapping.shape, flat)
    batches = [np.arange(first, min(first + batch, samples)) for first in range(0, samples, batch)]

    test = SelfTest(spec)
    at = {region.register: test.place(region) for region in (layout.parameters(frozen), layout.adapters(start))}
    at["samples"] = test.place(layout.samples(inputs))
    at["order"] = test.place(layout.order([(one, labels[one]) for one in batches]))
    at["cache"] = test.place(layout.cache(samples, raw=False))
    at["logits"] = test.place(layout.logits(samples))
    saved, scratch = test.place(layout.adapters(), "saved"), test.place(layout.scratch(), "scratch")

    raw = spec.raw_modes[0]
    codec = WordCodec(network) if raw else record_layout(network)
    cache = None if spec.cache == "none" else ForwardCache(network, codec, samples)

    def fresh() -> Job:
        return Job(network, frozen, Adapters(mapping.shape, flat.copy()), RATE, cache, spec.noise, loss=spec.loss)

    def save(name: str, adapters: Adapters) -> None:
        image = layout.adapters(adapters).image
        test.stage(name, Command.SAVE_ADAPTERS, {"adapters": saved}, memory={"adapters": (saved, image)})

    mode = REGISTERS["mode"]

    def tune(name: str, job: Job, chosen: list[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> None:
        before = job.saturations
        results, images = [], [layout.adapters(job.adapters).image]
        for one in chosen:
            results.append(job.batch(x[one], labels[one], one))
            images.append(layout.adapters(job.adapters).image)
        logits, misses = np.concatenate([one.logits for one in results]), sum(one.misses for one in results)
        settings = {register: at[register] for register in ("samples", "order", "cache", "logits")}
        settings |= {
            "cache_entries": samples,
            "samples_per_epoch": sum(map(len, chosen)),
            "epochs": 1,
            "batch": len(chosen[0]),
            "rate": RATE,
            "mode": mode.field("write_logits").mask | mode.field("raw").mask * raw,
        }
        counters = {"batches": len(chosen), "misses": misses, "saturations": job.saturations - before}
        if spec.early_stop:
            counters["epoch_loss"] = job.end_epoch()
        if spec.validation:
            counters |= {"validation_loss": 0, "correct": 0}
        memory = {"logits": (at["logits"], logits_image(mapping, logits))}
        if cache and spec.cache == "dram":
            # samples are recorded in order; places of others have never been written
            recorded = (max(map(max, chosen)) + 1) * mapping.record_beats * BEAT
            memory["records of the cache"] = (at["cache"], cache_image(mapping, cache).reshape(-1)[:recorded])
        test.stage(name, Command.TUNE, settings, counters, memory, images)

    load = {"adapters": at["adapters"]}
    test.stage("forget the cache", Command.FORGET)
    test.stage("load the network", Command.LOAD, {"parameters": at["parameters"]})
    test.stage("load adapters", Command.LOAD_ADAPTERS, load)
    save("save the same adapters", start)
    tune("record one sample", fresh(), [batches[0][:1]])
    test.stage("load adapters again", Command.LOAD_ADAPTERS, load)
    job = fresh()
    tune("tune one batch", job, batches[:1])
    save("save its adapters", job.adapters)
    tune("tune one epoch", job, batches)
    save("save the epoch's adapters", job.adapters)
    logits = logits_image(mapping, job.logits(x))
    infer = {"cache": scratch, "samples_per_epoch": samples, "epochs": 1, "batch": batch, "mode": 0}
    test.stage("infer", Command.INFER, infer, memory={"logits": (at["logits"], logits)})
    test.copies("load adapters", "save the same adapters")
    return test
