"""Fine-tune a network in integers and on the compiled core: the engine "rtl" of `fabtune tune`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.datasets.dataset import Samples, Task
from ....golden.errors import UserError
from ....golden.lora.adapters import Adapters, scheduled_rate
from ....golden.models.network import Network
from ....golden.train.adapters.integer import IntegerEngine
from ....golden.train.adapters.methods import AdapterPlacement, Cache, method_of
from ....golden.train.adapters.tune import AdapterResult, AdapterSettings, Epoch, accuracy, engine_of, tune
from ...compiled.comparison import DEFAULT_CORE, HELD_OUT
from ...compiled.session import Dram
from .job import JobComparison, TuningJob, compare_job


def spec_for(
    network: Network, settings: AdapterSettings, samples: int, byte_inputs: bool, core: str = DEFAULT_CORE
) -> InstantftSpec:
    """Choose the core for a job.

    Parameters
    ----------
    network, settings
        The job.
    samples : int
        Samples to tune with.
    byte_inputs : bool
        Whether samples are bytes.
    core : str
        A preset of `InstantftSpec`; it gets more columns where the rank needs them.

    Raises
    ------
    UserError
        If the core cannot run the method's cache, or there is no such preset.
    """
    if core not in InstantftSpec.presets:
        raise UserError(f"there is no core {core!r}; there are: {', '.join(InstantftSpec.presets)}")
    chosen: dict[str, Any] = dict(InstantftSpec.presets[core])
    method = method_of(settings.method)
    if method.cache is not Cache.NF4 and chosen.get("cache") == "chip":
        others = [name for name, values in InstantftSpec.presets.items() if values.get("cache") != "chip"]
        own = "caches Q8.16" if method.cache is Cache.FULL else "has no cache"
        raise UserError(
            f"the core {core} keeps its cache in NF4, and {settings.method} {own}: "
            f"take --method instantft, or --core {', '.join(others)}"
        )
    if method.cache is Cache.NONE:
        chosen["cache"] = "none"
    chosen["columns"] = max(chosen["columns"], 1 << (settings.rank - 1).bit_length())
    chosen["cache_entries"] = max(32, 1 << (samples - 1).bit_length())
    return InstantftSpec.of(
        network,
        rank=settings.rank,
        last_only=method.adapters is AdapterPlacement.LAST,
        tunes=method.last_layer or "adapters",
        byte_inputs=byte_inputs,
        stochastic=settings.stochastic,
        early_stop=settings.stop_at is not None or settings.validate > 0 or settings.patience > 0,
        validation=settings.validate > 0 or settings.patience > 0,
        rates=settings.schedule != "constant",
        batch=max(settings.batch, 2),
        **chosen,
    )


def tune_rtl(
    network: Network,
    module: nn.Module,
    task: Task,
    settings: AdapterSettings,
    progress: Callable[[Epoch], None] | None = None,
    watch: bool = False,
    stage: Callable[[str], None] = lambda _: None,
    core: str = DEFAULT_CORE,
    dram: Dram | None = None,
    seed: int = 0,
) -> tuple[AdapterResult, JobComparison, InstantftSpec]:
    """Tune in integers, then run the same job on the compiled core and compare.

    Parameters
    ----------
    network, module, task, settings, progress, watch
        See `golden.train.adapters.tune.tune`.
    stage : callable
        Called with the name of each step as it begins.
    core : str
        See `spec_for`.
    dram : Dram, optional
        Behaviour of the core's memory.
    seed : int
        Seed of the memory's randomness.

    Returns
    -------
    AdapterResult
        Accuracy after tuning and tensors are those of the core's adapters.
    JobComparison
    InstantftSpec
        Parameters of the core.
    """
    engine = engine_of(network, module, settings, len(task.tune))
    assert isinstance(engine, IntegerEngine)
    byte_inputs = task.tune.inputs.dtype == np.uint8
    spec = spec_for(network, settings, len(task.tune), byte_inputs, core)
    engine.job.noise = spec.noise
    start = Adapters(engine.job.adapters.shape, engine.job.adapters.flat)
    stage("tune in integers")
    result = tune(network, module, task, settings, progress, watch, engine=engine)

    def inputs(samples: Samples) -> Any:
        return samples.inputs if byte_inputs else engine.integers(samples)

    rate, factors = engine.job.rate, settings.factors(len(task.tune))
    _, checked = settings.split(len(task.tune))
    job = TuningJob(
        engine.job.frozen,
        start,
        inputs(task.tune),
        task.tune.labels.astype(np.int64),
        settings.batches(len(task.tune)),
        rate if settings.schedule == "constant" else [scheduled_rate(rate, factor) for factor in factors.flat],
        raw=method_of(settings.method).cache is not Cache.NF4,
        stop_loss=settings.early_stop(len(task.tune)).limit,
        validation=checked if len(checked) else None,
        patience=settings.patience,
    )
    found, comparison = compare_job(spec, job, inputs(task.test[:HELD_OUT]), dram, seed, stage)
    engine.job.adapters.flat[:] = found.flat
    result.accuracy_after = accuracy(engine, task.test)
    result.tensors = engine.tensors()
    return result, comparison, spec
