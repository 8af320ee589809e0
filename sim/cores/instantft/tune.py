"""Jobs of `fabtune tune` on `instantft`: fine-tuning of adapters or of the last layer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.datasets.dataset import Samples
from ....golden.errors import UserError
from ....golden.lora.adapters import Adapters, scheduled_rate
from ....golden.models.network import Network
from ....golden.train.adapters.integer import IntegerEngine
from ....golden.train.adapters.methods import METHODS, method_of
from ....golden.train.adapters.tune import AdapterResult, AdapterSettings, AdapterTuning
from ....golden.train.conversion import core_inputs
from ....golden.train.tuned.network import TunedNetwork
from ...compiled.playing import Played
from ...compiled.tuner import DEFAULT_CORE, HELD_OUT, Tuner, preset_of
from ..adapters_job import TuningJob, adopt_adapters


class InstantftTuner(Tuner):
    """Jobs of `instantft`: adapters or the last layer, trained in integers."""

    methods = tuple(METHODS)

    def spec_for(
        self, network: Network, settings: AdapterSettings, samples: int, byte_inputs: bool, preset: str = DEFAULT_CORE
    ) -> InstantftSpec:
        """Make the core's spec for a job; a preset gets more columns if the rank needs them."""
        chosen = preset_of(InstantftSpec, preset)
        method = method_of(settings.method)
        if method.caches_raw and chosen.get("cache") == "chip":
            able = [one.name for one in METHODS.values() if not one.caches_raw]
            others = [name for name, values in InstantftSpec.presets.items() if values.get("cache") != "chip"]
            own = "caches Q8.16" if method.caches else "has no cache"
            raise UserError(
                f"the core {preset} keeps its cache in NF4, and {settings.method} {own}: "
                f"take --method {', '.join(able)}, or --core {', '.join(others)}"
            )
        chosen |= method.core_settings
        chosen["columns"] = max(chosen["columns"], 1 << (settings.rank - 1).bit_length())
        chosen["cache_entries"] = max(32, 1 << (samples - 1).bit_length())
        return InstantftSpec.of(
            network,
            rank=settings.rank,
            byte_inputs=byte_inputs,
            stochastic=settings.stochastic,
            early_stop=settings.stop_at is not None or settings.validate > 0 or settings.patience > 0,
            validation=settings.validate > 0 or settings.patience > 0,
            rates=settings.schedule != "constant",
            batch=max(settings.batch, 2),
            **chosen,
        )

    def job(self, tuning: AdapterTuning, spec: InstantftSpec) -> tuple[TuningJob, NDArray[np.integer]]:
        engine, settings, task = tuning.engine, tuning.settings, tuning.task
        assert isinstance(engine, IntegerEngine), "a core's engine"
        engine.job.noise = spec.noise
        rate, factors = engine.job.rate, settings.factors(len(task.tune))
        _, checked = settings.split(len(task.tune))

        def inputs(samples: Samples) -> Any:
            return samples.inputs if spec.byte_inputs else engine.integers(samples)

        job = TuningJob(
            engine.job.frozen,
            Adapters(engine.job.adapters.shape, engine.job.adapters.flat),
            inputs(task.tune),
            task.tune.labels.astype(np.int64),
            settings.batches(len(task.tune)),
            rate if settings.schedule == "constant" else [scheduled_rate(rate, factor) for factor in factors.flat],
            raw=method_of(settings.method).caches_raw,
            stop_loss=settings.early_stop(len(task.tune)).limit,
            validation=checked if len(checked) else None,
            patience=settings.patience,
        )
        return job, inputs(task.test[:HELD_OUT])

    def adopt(
        self, tuning: AdapterTuning, result: AdapterResult, spec: InstantftSpec, job: TuningJob, played: Played
    ) -> bool:
        return adopt_adapters(tuning, result, job, spec.layout, played)

    def untuned(self, tuned: TunedNetwork, rank: int, samples: Samples, preset: str) -> tuple[InstantftSpec, TuningJob]:
        chosen, job = preset_of(InstantftSpec, preset), tuned.job(rank)
        spec = InstantftSpec.of(
            tuned.network,
            rank=rank,
            last_only=not tuned.tuned_layer and len(job.adapters.a) < len(tuned.network.stages),
            tunes=tuned.tuned_layer or "adapters",
            byte_inputs=samples.inputs.dtype == np.uint8,
            **chosen | {"columns": max(chosen["columns"], 1 << (rank - 1).bit_length())},
        )
        first = samples[:1]  # room in the cache for one: an inference reads and writes none of it
        return spec, TuningJob(job.frozen, job.adapters, core_inputs(first), first.labels, [], 0, spec.raw_modes[0])


TUNER = InstantftTuner()
