"""Fine-tuning of a network in integers and on the compiled core: the engine "rtl" of `fabtune tune`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....boards.cores.instantft.job import FineTuner
from ....boards.host.driver import Core
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.datasets.dataset import Samples
from ....golden.errors import UserError
from ....golden.lora.adapters import Adapters, scheduled_rate
from ....golden.lora.memory_layout import adapters_of
from ....golden.models.network import Network
from ....golden.train.adapters.integer import IntegerEngine
from ....golden.train.adapters.methods import METHODS, AdapterPlacement, Cache, method_of
from ....golden.train.adapters.tune import AdapterResult, AdapterSettings, AdapterTuning, accuracy
from ....golden.train.conversion import core_inputs
from ....golden.train.tuned.network import TunedNetwork
from ...compiled.comparison import Comparison, compare, simulated_core
from ...compiled.session import Dram
from ...compiled.tuner import DEFAULT_CORE, HELD_OUT, Inference, Stage, preset_of
from .job import TuningJob


class InstantftTuner:
    """Jobs of `instantft`, see `compiled.tuner.Tuner`: adapters or the last layer, whatever is trained in integers."""

    methods = tuple(METHODS)

    def spec_for(
        self, network: Network, settings: AdapterSettings, samples: int, byte_inputs: bool, preset: str = DEFAULT_CORE
    ) -> InstantftSpec:
        """Choose the core for a job; a preset gets more columns where the rank needs them."""
        chosen = preset_of(InstantftSpec, preset)
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
    ) -> tuple[AdapterResult, Comparison]:
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
        played, comparison = compare(spec, job, inputs(task.test[:HELD_OUT]), dram, seed, stage)
        found, rows = played.tuned, (result.kept_epoch or 0) * job.batches_of_epoch
        if settings.keeps_best and 0 < rows <= len(played.images):
            found = adapters_of(spec.mapping, played.images[rows - 1].copy())
        engine.job.adapters.flat[:] = found.flat
        result.accuracy_after = accuracy(engine, task.test)
        result.tensors = engine.tensors()
        return result, comparison

    def infer(
        self, tuned: TunedNetwork, rank: int, samples: Samples, preset: str, stage: Stage = lambda _: None
    ) -> Inference:
        """Run samples through a network with its adapters, see `compiled.tuner.Tuner`."""
        chosen, job = preset_of(InstantftSpec, preset), tuned.job(rank)
        byte_inputs = samples.inputs.dtype == np.uint8
        spec = InstantftSpec.of(
            tuned.network,
            rank=rank,
            last_only=not tuned.tuned_layer and len(job.adapters.a) < len(tuned.network.stages),
            tunes=tuned.tuned_layer or "adapters",
            byte_inputs=byte_inputs,
            **chosen | {"columns": max(chosen["columns"], 1 << (rank - 1).bit_length())},
        )
        device = simulated_core(spec, None, 0, stage)
        core = Core(spec.registers, device, device, device.interrupt)
        tuner = FineTuner(core, spec, 1, raw=spec.raw_modes[0])
        stage("simulate the network")
        tuner.load(job.frozen)
        tuner.load_adapters(job.adapters)
        logits = tuner.logits(core_inputs(samples))
        return Inference(spec, logits, device.simulated)


TUNER = InstantftTuner()
