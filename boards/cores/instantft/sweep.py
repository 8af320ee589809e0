"""Sweep of `instantft`: adapters of each stage are tuned; stage outputs are cached in NF4 or Q8.16."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.errors import UserError
from ....golden.train.adapters.methods import DEFAULT, METHODS, adapter_defaults
from ....golden.train.adapters.tune import AdapterSettings, tune
from ...sweep.core_sweep import TrainedSweep
from ...sweep.design import Design, Workload, core_of
from ...sweep.space import Point, Space

SWEPT = {name: method for name, method in reversed(METHODS.items()) if method.skips and method.caches}
"""Methods with an adapter for each stage, and with a cache in NF4 or Q8.16."""
BATCH = 20


class InstantftSweep(TrainedSweep[InstantftSpec, AdapterSettings]):
    """Designs of points of `instantft`."""

    spec = InstantftSpec
    training: ClassVar[dict[str, type]] = {"epochs": int}
    not_swept: ClassVar[dict[str, str]] = {
        "batch": "it is training's batch",
        **dict.fromkeys(("last_only", "tunes"), "the methods of a sweep have an adapter beside each stage"),
        **dict.fromkeys(
            ("stochastic", "rates", "early_stop", "validation"),
            "a sweep's training rounds to nearest, at one rate, to its end",
        ),
    }

    def design(self, space: Space, point: Point, workload: Workload) -> Design:
        """A point's core, with a cache entry for each sample, and its training."""
        training, samples = point.training, len(workload.task.tune)
        defaults = adapter_defaults(workload.network.name)
        method = str(training.get("method", DEFAULT))
        if method not in SWEPT:
            raise UserError(f"training.method = {method!r} is not one of {', '.join(SWEPT)}")
        batch = int(training.get("batch", BATCH))
        settings = {"cache_entries": max(32, 1 << (samples - 1).bit_length())} | point.settings
        spec, texts = core_of(space, settings | {"batch": max(batch, 2)}, workload)
        assert isinstance(spec, InstantftSpec)
        if samples > spec.cache_entries:
            raise UserError(f"cache_entries = {spec.cache_entries}: the data have {samples} samples to tune on")
        if spec.cache == "none":
            raise UserError(f"cache = none: {method} has a cache")
        if SWEPT[method].caches_raw and spec.cache == "chip":
            raise UserError(f"cache = chip keeps records in NF4, and {method} caches Q8.16")
        epochs, rate = int(training.get("epochs", defaults.epochs)), float(training.get("rate", defaults.rate))
        return Design(spec, texts, AdapterSettings(method, "golden", epochs, batch, rate, spec.rank))

    def with_seed(self, training: AdapterSettings, seed: int) -> AdapterSettings:
        return replace(training, seed=seed)

    def accuracy(self, training: AdapterSettings, array: tuple[int, int], workload: Workload) -> float:
        """Accuracy with tuned adapters, which does not depend on the array."""
        return tune(workload.network, workload.module, workload.task, training).accuracy_after

    def cycles(self, spec: InstantftSpec, training: AdapterSettings, samples: int) -> int:
        """Cycles of a tuning: once the words of each new sample, then for each sample in each epoch the bottleneck.

        The bottleneck is the adapters' rows in both passes, or the beats of the sample's record and input.
        """
        mapping = spec.mapping
        record, read = _record_beats(spec, training), mapping.forward.sample_beats
        if spec.cache == "chip":
            record = 0
        beats = max(-(-(record + read) // spec.ports), record, read)
        known = max(2 * mapping.adapter_rows, beats)
        return samples * mapping.forward.cycles + training.epochs * samples * known

    def dram_bytes(self, spec: InstantftSpec, training: AdapterSettings, samples: int) -> int:
        """Sum of the bytes of parameters, adapters, samples, schedule and cache."""
        mapping, batch = spec.mapping, training.batch
        beats = mapping.forward.frozen_beats + mapping.adapter_beats + samples * mapping.forward.sample_beats
        entries = [len(indices) for indices in np.split(np.arange(samples), range(batch, samples, batch))]
        beats += training.epochs * sum(-(-4 * count // BEAT) for count in entries) + 1
        return BEAT * (beats + (1 if spec.cache == "chip" else samples * _record_beats(spec, training)))

    def tune_options(self, training: AdapterSettings, array: tuple[int, int]) -> list[str]:
        return ["--epochs", str(training.epochs), "--batch", str(training.batch), "--rank", str(training.rank)]


def _record_beats(spec: InstantftSpec, training: AdapterSettings) -> int:
    return spec.mapping.raw_beats if SWEPT[training.method].caches_raw else spec.mapping.record_beats


SWEEP = InstantftSweep()
