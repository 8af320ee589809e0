"""Example of a zeroth-order core: an inference, training steps, and another inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ...golden.axi.bus import BEAT
from ...golden.axi.regions import Region
from ...golden.cores.zeroth_order.golden_core import GoldenZerothOrder
from ...golden.datasets.dataset import Samples
from ...golden.fixed import Integers
from ...golden.train.zo.schedule import Schedule
from ...golden.zo.deltas import PerturbationTable
from ...golden.zo.memory_layout import StepOrder, ZerothOrderLayout
from ...golden.zo.step_settings import StepSettings
from ..selftest.played import PlayedSelfTest
from .job import Example, ExampleData
from .task import correct

INFERRED = 100
"""Number of samples of an inference."""


def zeroth_order_example(
    core: GoldenZerothOrder[Any],
    layout: ZerothOrderLayout,
    data: ExampleData,
    tune: Samples,
    test: Samples,
    *,
    network: Sequence[Region],
    regions: Callable[[Samples], Sequence[Region]],
    steps: int,
    batch: int,
    rate: float,
    counters: Sequence[str],
    program: Path,
    seed: int = 0,
    position: int = 0,
    rows: Integers | None = None,
    numbers: Mapping[str, int] = MappingProxyType({}),
    inference: Mapping[str, int] = MappingProxyType({}),
) -> Example:
    """Play an example on golden. Longer than most functions: a third are its arguments.

    Parameters
    ----------
    core : GoldenZerothOrder
        Golden core for the network.
    layout : ZerothOrderLayout
    data : ExampleData
    tune, test : Samples
        Samples to tune on, and held-out samples.
    network : sequence of Region
        Regions of the load.
    regions : callable
        Makes the memory regions of samples.
    steps, batch : int
    rate : float
        Learning rate of the mean loss of a batch.
    counters : sequence of str
        Compared counters of the training.
    program : Path
        C source of the core's commands.
    seed : int
        Seed of the samples' order.
    position : int
        Position of the first perturbation.
    rows : array of int, (rows, n), optional
        Deltas to load after the network.
    numbers, inference : mapping of str to int
        Further settings of the load and of an inference, apart from addresses.
    """
    drawn = [*Schedule(steps, batch, seed).indices(len(tune))]
    sizes, table = [len(one) for one in drawn], PerturbationTable(layout.generator)
    rates, common = StepSettings().with_rates([rate] * steps, sizes, table)
    orders = [StepOrder(one, tune.labels[one], rate) for one, rate in zip(drawn, rates, strict=True)]
    parts = np.split(np.arange(len(test)), range(INFERRED, len(test), INFERRED))
    passes = [StepOrder(one, test.labels[one], 0) for one in parts]

    commands = core.spec.registers.commands
    script = PlayedSelfTest(core.spec, core, traces=False)
    load = {region.register: script.place(region) for region in network}
    at = {f"tune_{one.register}": script.place(one, f"tune_{one.register}") for one in regions(tune)}
    at["tune_order"] = script.place(layout.order(orders, batch), "tune_order")
    at["state"] = script.place(layout.state(position))
    at |= {f"test_{one.register}": script.place(one, f"test_{one.register}") for one in regions(test)}
    at["test_order"] = script.place(layout.order(passes, INFERRED), "test_order")
    if rows is not None:
        at["deltas"] = script.place(layout.deltas(rows))
    script.place(Region.containing("labels", test.labels.astype(np.uint8)))
    at["records"] = script.place(layout.records(steps, batch))
    at["logits"] = script.place(layout.logits(len(test)))
    at["tuned"] = script.place(layout.deltas(), "tuned")

    def given(kind: str, *others: str) -> dict[str, int]:
        names = [name for name in ("samples", "index", "order", "cache") if f"{kind}_{name}" in at]
        weights = {name: load[name] for name in ("weights",) if name in load}
        return weights | {name: at[f"{kind}_{name}"] for name in names} | {name: at[name] for name in others}

    infer = given("test", "logits") | dict(inference)
    infer |= {"sample_count": len(test), "steps": len(passes), "batch": INFERRED}

    def inferred(name: str) -> int:
        (logits,) = script.play(name, commands["INFER"], infer, {"logits": "logits"})
        return correct(layout.logits_of(logits), test.labels)

    script.play("load the network", commands["LOAD"], load | dict(numbers))
    if rows is not None:
        script.play("load deltas", commands["LOAD_DELTAS"], {"deltas": at["deltas"]})
    before, registers = inferred("infer"), core.step_registers(common)
    train = given("tune", "state", "records")
    train |= {"sample_count": len(tune), "steps": steps, "batch": batch}
    train |= {"position": position, **registers}
    cached = _cached(script, layout, len(tune), given("tune")) if registers.get("cached") else {}
    script.play("tune", commands["TRAIN"], train, {"records": "records"}, trains=True, counters=counters)
    after = inferred("infer again")
    script.play("save deltas", commands["SAVE_DELTAS"], {"deltas": at["tuned"]}, {"deltas": "deltas"})

    settings = {**numbers, **cached, "tune_count": len(tune), "tune_steps": steps, "tune_batch": batch}
    settings |= {"test_count": len(test), "test_steps": len(passes), "test_batch": INFERRED}
    settings |= {"position": position} | {name: registers[name] for name in ("eps_shift", "shift", "gap")}
    how = f"{steps} steps on {len(tune)} samples, batches of {batch}, rate {rate:g}"
    return Example(data, script.test, before, after, layout.logit_beats * BEAT // 4, settings, how, program)


def _cached(script: PlayedSelfTest, layout: ZerothOrderLayout, count: int, settings: dict[str, int]) -> dict[str, int]:
    """Play the command that fills the forward cache for all samples; return numbers for the program."""
    numbers = np.arange(count)
    parts = np.split(numbers, range(INFERRED, count, INFERRED))
    orders = [StepOrder(part, np.zeros_like(part), 0) for part in parts]
    place = script.place(layout.order(orders, INFERRED), "cache_order")
    settings = settings | {"order": place, "sample_count": count, "steps": len(parts), "batch": INFERRED}
    script.play("fill the cache", script.test.spec.registers.commands["CACHE"], settings)
    return {"cache_steps": len(parts), "cache_batch": INFERRED}
