"""Fine-tuning of a network in integers and on the compiled core: the engine "rtl" of `fabtune tune`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.datasets.dataset import Samples
from ....golden.errors import UserError
from ....golden.lora.adapters import Adapters, scheduled_rate
from ....golden.models.network import Network
from ....golden.train.adapters.integer import IntegerEngine
from ....golden.train.adapters.methods import METHODS, AdapterPlacement, Cache, method_of
from ....golden.train.adapters.tune import AdapterResult, AdapterSettings, AdapterTuning, accuracy
from ...compiled.session import Dram
from ...compiled.tuner import DEFAULT_CORE, HELD_OUT, Stage
from .job import JobComparison, TuningJob, compare_job


class InstantftTuner:
    """Jobs of `instantft`, see `compiled.tuner.Tuner`: adapters or the last layer, whatever is trained in integers."""

    methods = tuple(METHODS)

    def spec_for(
        self, network: Network, settings: AdapterSettings, samples: int, byte_inputs: bool, preset: str = DEFAULT_CORE
    ) -> InstantftSpec:
        """Choose the core for a job; a preset gets more columns where the rank needs them."""
        if preset not in InstantftSpec.presets:
            raise UserError(f"there is no core {preset!r}; there are: {', '.join(InstantftSpec.presets)}")
        chosen: dict[str, Any] = dict(InstantftSpec.presets[preset])
        method = method_of(settings.method)
        if method.cache is not Cache.NF4 and chosen.get("cache") == "chip":
            others = [name for name, values in InstantftSpec.presets.items() if values.get("cache") != "chip"]
            own = "caches Q8.16" if method.cache is Cache.FULL else "has no cache"
            raise UserError(
                f"the core {preset} keeps its cache in NF4, and {settings.method} {own}: "
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

    def run(
        self,
        tuning: AdapterTuning,
        spec: InstantftSpec,
        stage: Stage = lambda _: None,
        dram: Dram | None = None,
        seed: int = 0,
        **progress: Any,
    ) -> tuple[AdapterResult, JobComparison]:
        """Run a job in integers, then on the compiled core, and compare.

        Parameters
        ----------
        tuning, spec, stage, **progress
            See `compiled.tuner.Tuner`.
        dram : Dram, optional
            Behaviour of the core's memory.
        seed : int
            Seed of the memory's randomness.
        """
        engine, settings, task = tuning.engine, tuning.settings, tuning.task
        assert isinstance(engine, IntegerEngine), "a core's engine"
        engine.job.noise = spec.noise
        start = Adapters(engine.job.adapters.shape, engine.job.adapters.flat)
        stage("tune in integers")
        result = tuning.run(**progress)

        def inputs(samples: Samples) -> Any:
            return samples.inputs if spec.byte_inputs else engine.integers(samples)

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
        kept = result.kept_epoch if settings.keeps_best else None
        found, comparison = compare_job(spec, job, inputs(task.test[:HELD_OUT]), dram, seed, stage, kept)
        engine.job.adapters.flat[:] = found.flat
        result.accuracy_after = accuracy(engine, task.test)
        result.tensors = engine.tensors()
        return result, comparison


TUNER = InstantftTuner()
