"""Example of `instantft`: epochs that tune adapters, or the last layer, as the core was generated."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.axi.regions import Region
from ....golden.cores.adapters.registers import RAW, Command
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.errors import UserError
from ....golden.fixed import Q4_12
from ....golden.lora.adapters import Adapters, rate_of, untuned_layer
from ....golden.train.adapters.engine import initial_adapters
from ....golden.train.adapters.methods import AdapterDefaults, adapter_defaults
from ....golden.train.batches import epoch_batches
from ...example.job import Example
from ...example.task import ExampleTask, as_read, correct, only
from ...selftest.played import PlayedSelfTest

BATCH = 20
"""Batch for which the default rate was chosen, even if the core's batch is smaller."""
DRAWN = {"adapters": AdapterDefaults(10, 0.2), "layer": AdapterDefaults(10, 0.1), "biases": AdapterDefaults(10, 0.1)}
"""Epochs and rate for a random network, by the kind of tuned parameters."""
PROGRAM = Path(__file__).with_name("example.c")
"""C source of the core's commands."""


def example(spec: InstantftSpec, task: ExampleTask) -> Example:
    """Example of a core: the job of `fabtune tune` with the task's seed, epochs, batch and rate.

    A `UserError` if there are more samples, or larger batches, than the core allows.
    """
    layout, tune, test = spec.layout, task.tune, task.test
    if task.drawn:
        tune = tune[: spec.cache_entries]
    defaults = DRAWN[spec.tunes] if task.drawn else adapter_defaults(task.network)
    _check(spec, task, len(tune))
    batch, epochs = task.batch or BATCH, task.epochs or defaults.epochs
    rate, size = rate_of(task.rate or defaults.rate, batch), min(spec.batch, batch)
    raw, adapters = spec.raw_modes[0], _initial(spec, task.seed)
    tuned = [chosen for epoch in epoch_batches(len(tune), size, epochs, task.seed) for chosen in epoch]
    tested = np.split(np.arange(len(test)), range(spec.batch, len(test), spec.batch))

    script = PlayedSelfTest(spec, traces=False)
    address = {
        "parameters": script.place(layout.parameters(task.frozen)),
        "adapters": script.place(layout.adapters(adapters)),
        "tune_samples": script.place(layout.samples(as_read(tune, spec.byte_inputs)), "tune_samples"),
        "tune_order": script.place(layout.order([(indices, tune.labels[indices]) for indices in tuned]), "tune_order"),
        "test_samples": script.place(layout.samples(as_read(test, spec.byte_inputs)), "test_samples"),
        "test_order": script.place(layout.order([(indices, test.labels[indices]) for indices in tested]), "test_order"),
        "labels": script.place(Region.containing("labels", test.labels.astype(np.uint8))),
        "cache": script.place(layout.cache(len(tune), raw)),
        "scratch": script.place(layout.scratch(), "scratch"),
        "logits": script.place(layout.logits(len(test))),
        "tuned": script.place(layout.adapters(), "tuned"),
    }
    infer = {
        "samples": address["test_samples"],
        "order": address["test_order"],
        "cache": address["scratch"],
        "logits": address["logits"],
    }
    infer |= {"samples_per_epoch": len(test), "epochs": 1, "batch": spec.batch, "mode": 0}

    def inferred(name: str) -> int:
        (logits,) = script.play(name, Command.INFER, infer, {"logits": "logits"})
        return correct(layout.logits_of(logits), test.labels)

    script.play("load the network", Command.LOAD, {"parameters": address["parameters"]})
    script.play("load adapters", Command.LOAD_ADAPTERS, {"adapters": address["adapters"]})
    before = inferred("infer")
    script.play("forget the cache", Command.FORGET, {})
    mode = RAW.mask * raw
    registers = {
        "samples": address["tune_samples"],
        "order": address["tune_order"],
        "cache": address["cache"],
        "logits": address["logits"],
    }
    registers |= {"cache_entries": len(tune), "samples_per_epoch": len(tune), "epochs": epochs, "batch": size}
    registers |= {"rate": rate, "mode": mode} | ({"validation_samples": 0, "patience": 0} if spec.validation else {})
    script.play("tune", Command.TUNE, registers, trains=True, counters=("batches", "misses", "saturations"))
    after = inferred("infer again")
    script.play("save adapters", Command.SAVE_ADAPTERS, {"adapters": address["tuned"]}, {"adapters": "adapters"})

    settings = {"tune_count": len(tune), "epochs": epochs, "tune_batch": size, "test_count": len(test)}
    settings |= {"test_batch": spec.batch, "rate": rate, "mode": mode}
    how = f"{epochs} epochs of {len(tune)} samples, batches of {size}, rate {task.rate or defaults.rate:g}"
    return Example(
        task.data(spec), script.test, before, after, spec.mapping.logit_beats * BEAT // 4, settings, how, PROGRAM
    )


def _check(spec: InstantftSpec, task: ExampleTask, samples: int) -> None:
    only(task, spec.name, "epochs", "steps")
    if samples > spec.cache_entries:
        most = 1 << (samples - 1).bit_length()
        raise UserError(
            f"{samples} samples to tune on, and the core's cache has {spec.cache_entries} entries: "
            f"--set cache_entries={most}, or fewer samples"
        )
    if task.batch is not None and task.batch > spec.batch:
        raise UserError(f"--batch {task.batch}: the core takes at most {spec.batch}: --set batch={task.batch}")


def _initial(spec: InstantftSpec, seed: int) -> Adapters:
    """Initial adapters, which do not change the network's outputs."""
    shape = spec.mapping.shape
    if shape.selects:
        return untuned_layer(shape)
    a = initial_adapters(shape.inputs, shape.rank, np.random.default_rng([seed, 1]))
    zeros = np.zeros((shape.classes, shape.rank), np.int64)
    return Adapters.of(shape, [Q4_12.from_float(factor) for factor in a], [zeros] * len(a))
