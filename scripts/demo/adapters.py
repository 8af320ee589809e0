"""The demo's adapter part on drifted digits: in float, in the hardware's integers and in the core's RTL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.progress import Progress
from torch import nn

from ...boards.board import DEFAULT_MHZ
from ...golden.cores.network_core import NetworkCoreSpec
from ...golden.datasets.dataset import Task
from ...golden.models.network import Network
from ...golden.train.adapters.methods import DEFAULT, METHODS, adapter_defaults
from ...golden.train.adapters.tune import AdapterResult, AdapterSettings, AdapterTuning
from ...sim.compiled.comparison import Comparison
from ...sim.compiled.tuner import tuner_of
from ..progress import core_bar

METHOD = DEFAULT
"""Method that also runs in a core."""
COLOURS = {METHOD: "tab:blue", "lora-last": "tab:green", "lora-all": "tab:grey"}
"""Methods of the demo, and the colours of their curves."""
CORE = "tiny"
"""Preset of the core; a small one, as the core's synthesis and compilation take most of the demo's time."""


@dataclass(frozen=True)
class AdapterRuns:
    """Fine-tuning with adapters on drifted digits, on a number of samples.

    ``core`` ran the whole job. ``results`` are by method and engine; ``("instantft", "rtl")`` is the core's result.
    ``comparison`` compares the core with the integers.
    """

    core: NetworkCoreSpec
    samples: int
    results: dict[tuple[str, str], AdapterResult]
    comparison: Comparison

    @property
    def settings(self) -> AdapterSettings:
        return settings_for(METHOD, "rtl")

    @property
    def curves(self) -> dict[tuple[str, str], list[tuple[int, float]]]:
        """Points (forward passes, fraction of held-out samples correct), by method and engine."""
        return {
            run: [(epoch * self.samples, right) for epoch, right in enumerate(result.curve)]
            for run, result in self.results.items()
            if run[1] != "rtl"  # same bits and curve as golden
        }

    @property
    def _milliseconds(self) -> str:
        return f"{self.comparison.cycles / DEFAULT_MHZ / 1000:.2f}"

    def rows(self) -> list[dict[str, Any]]:
        """Table of the results. The host's time is of the tuning alone; the core's time is from clock cycles."""
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
                "time on this machine, ms": "" if engine == "rtl" else f"{1000 * result.seconds:,.0f}",
                f"time of the core at {DEFAULT_MHZ} MHz, ms": self._milliseconds if engine == "rtl" else "",
            }
            for (method, engine), result in self.results.items()
        ]


def settings_for(method: str, engine: str) -> AdapterSettings:
    """Settings of a method on digits."""
    defaults = adapter_defaults("digits")
    return AdapterSettings(method, engine, defaults.epochs, rate=defaults.rate)


def core_for_digits(network: Network, task: Task) -> NetworkCoreSpec:
    """The core that fine-tunes digits with `METHOD`."""
    settings = settings_for(METHOD, "rtl")
    return tuner_of(METHOD).spec_for(network, settings, len(task.tune), byte_inputs=True, preset=CORE)


def tune_adapters(
    network: Network, module: nn.Module, task: Task, core: NetworkCoreSpec, progress: Progress
) -> AdapterRuns:
    """Fine-tune a network with several methods, and with `METHOD` in the compiled core."""
    # the core's method with both engines, each other method in integers if possible
    others = [(name, "float" if METHODS[name].propagates else "golden") for name in COLOURS if name != METHOD]
    combinations = [(METHOD, "golden"), (METHOD, "float"), *others]
    bar = progress.add_task("adapters in the model", total=len(combinations) * adapter_defaults("digits").epochs)
    results = {}
    for method, engine in combinations:
        tuning = AdapterTuning(network, module, task, settings_for(method, engine))
        results[method, engine] = tuning.run(lambda _: progress.advance(bar), watch=True)
    tuning = AdapterTuning(network, module, task, settings_for(METHOD, "rtl"))
    with core_bar(progress, core.name) as begin:
        results[METHOD, "rtl"], comparison = tuner_of(METHOD).run(tuning, core, begin)
    return AdapterRuns(core, len(task.tune), results, comparison)
