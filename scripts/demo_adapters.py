"""The demo's second part: adapters on the same drifted digits, in the hardware's integers and in its RTL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from rich.progress import Progress

from ..golden.cores.instantft import InstantftSpec
from ..golden.datasets.tasks import task_of
from ..golden.models.presets import preset
from ..golden.train.adapters.defaults import adapter_defaults
from ..golden.train.adapters.methods import METHODS
from ..golden.train.adapters.tune import Result, Settings, tune
from ..golden.train.pretrain import pretrain, pretraining_defaults
from ..sim.compiled.comparison import MEGAHERTZ
from ..sim.compiled.job import JobComparison
from ..sim.compiled.tune import spec_for, tune_rtl

SHOWN = (("instantft", "golden"), ("instantft", "float"), ("lora-last", "golden"), ("lora-all", "float"))
"""Methods and engines beside the core."""
CORE = "tiny"
"""Preset of `InstantftSpec`: the time of the demo is mostly the synthesis and compilation of the core."""


@dataclass(frozen=True)
class AdapterRuns:
    """Fine-tuning with adapters on drifted digits.

    Parameters
    ----------
    results : dict of (str, str) to Result
        By method and engine; ``("instantft", "rtl")`` is the core's.
    comparison : JobComparison
        The core beside the integers.
    """

    results: dict[tuple[str, str], Result]
    comparison: JobComparison

    def rows(self) -> list[dict[str, Any]]:
        """Tabulate the results."""
        milliseconds = f"{self.comparison.cycles / MEGAHERTZ / 1000:.2f} at {MEGAHERTZ} MHz"
        return [
            {
                "method": METHODS[method].title,
                "numbers": "float32" if engine == "float" else "Q8.16, Q4.12",
                "runs in": {"golden": "NumPy", "rtl": "the core's RTL"}.get(engine, "PyTorch or NumPy"),
                "trained parameters": result.trained_parameters,
                "before": f"{100 * result.accuracy_before:.1f} %",
                "after": f"{100 * result.accuracy_after:.1f} %",
                "cache bytes": result.cache_bytes,
                "clipped": result.saturations,
                "ms": milliseconds if engine == "rtl" else round(1000 * result.seconds),
            }
            for (method, engine), result in self.results.items()
        ]


def settings_for(method: str, engine: str) -> Settings:
    """Settings of a method on digits."""
    defaults = adapter_defaults("digits")
    return Settings(method, engine, defaults.epochs, rate=defaults.rate)


def core_for_digits() -> InstantftSpec:
    """The core that fine-tunes digits with InstantFT."""
    samples = len(task_of("digits", drift="camera").tune)
    return spec_for(preset("digits"), settings_for("instantft", "rtl"), samples, byte_inputs=True, core=CORE)


def tune_adapters(progress: Progress) -> AdapterRuns:
    """Pre-train the digits network, fine-tune it with several methods, and with InstantFT in the compiled core."""
    torch.set_num_threads(1)
    network, pretraining = preset("digits"), pretraining_defaults("digits")
    epochs = pretraining.epochs + len(SHOWN) * adapter_defaults("digits").epochs
    bar = progress.add_task("adapters in the model", total=epochs)
    task = task_of("digits", drift="camera")
    module = pretrain(network, task.pretrain, pretraining, lambda *_: progress.advance(bar))
    results = {}
    for method, engine in SHOWN:
        settings = settings_for(method, engine)
        results[method, engine] = tune(network, module, task, settings, lambda _: progress.advance(bar), watch=True)
    core = progress.add_task("the core", total=1)

    def begin(stage: str) -> None:
        progress.update(core, description=f"the core: {stage}")

    settings = settings_for("instantft", "rtl")
    results["instantft", "rtl"], comparison, _ = tune_rtl(network, module, task, settings, stage=begin, core=CORE)
    progress.update(core, advance=1, description="the core")
    return AdapterRuns(results, comparison)
