"""The demo's second part: adapters on the same drifted digits, in the hardware's integers and in its RTL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from rich.progress import Progress
from torch import nn

from ..boards.estimate.estimate import Estimate, estimate_rtlil
from ..golden.cores.instantft import InstantftSpec
from ..golden.datasets.dataset import Task
from ..golden.datasets.tasks import task_of
from ..golden.models.network import Network
from ..golden.models.presets import preset
from ..golden.train.adapters.defaults import adapter_defaults
from ..golden.train.adapters.methods import METHODS
from ..golden.train.adapters.tune import Result, Settings, tune
from ..golden.train.pretrain import pretrain, pretraining_defaults
from ..hw.verilog import emit
from ..sim.compiled.job import MEGAHERTZ, Comparison
from ..sim.compiled.tune import spec_for, tune_rtl

SHOWN = (("instantft", "golden"), ("instantft", "float"), ("lora-last", "golden"), ("lora-all", "float"))


@dataclass(frozen=True)
class Core:
    """The core that fine-tuned the digits: how it compares with the integers, and what it occupies."""

    spec: InstantftSpec
    comparison: Comparison
    estimate: Estimate


def tune_digits(progress: Progress) -> tuple[dict[tuple[str, str], Result], Core]:
    """Fine-tune the digits network with several methods; results by (method, engine), and the core."""
    torch.set_num_threads(1)
    network, defaults, how = preset("digits"), adapter_defaults("digits"), pretraining_defaults("digits")
    bar = progress.add_task("adapters in the model", total=how.epochs + len(SHOWN) * defaults.epochs)
    task = task_of("digits", drift="camera")
    module = pretrain(network, task.pretrain, how, lambda *_: progress.advance(bar))
    results = {
        (method, engine): tune(
            network,
            module,
            task,
            Settings(method, engine, defaults.epochs, rate=defaults.rate),
            lambda _: progress.advance(bar),
            watch=True,
        )
        for method, engine in SHOWN
    }
    results["instantft", "rtl"], core = _in_rtl(progress, network, module, task, defaults.epochs, defaults.rate)
    return results, core


def _in_rtl(
    progress: Progress, network: Network, module: nn.Sequential, task: Task, epochs: int, rate: float
) -> tuple[Result, Core]:
    """The same job in the compiled core; Yosys works beside the simulator."""
    bar = progress.add_task("the core: emit", total=2)
    settings = Settings("instantft", "rtl", epochs, rate=rate)
    spec = spec_for(network, settings, len(task.tune), byte_inputs=True)
    emitted = emit(spec)
    with ThreadPoolExecutor(1) as beside:
        estimating = beside.submit(estimate_rtlil, emitted.rtlil, emitted.top)
        result, comparison, _ = tune_rtl(
            network, module, task, settings, stage=lambda what: progress.update(bar, description=f"the core: {what}")
        )
        progress.update(bar, advance=1, description="the core: estimate resources")
        core = Core(spec, comparison, estimating.result())
    progress.update(bar, advance=1, description="the core")
    return result, core


def adapters_table(results: dict[tuple[str, str], Result], comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each result."""
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
            "ms": f"{comparison.cycles / MEGAHERTZ / 1000:.2f} at {MEGAHERTZ} MHz"
            if engine == "rtl"
            else round(1000 * result.seconds),
        }
        for (method, engine), result in results.items()
    ]
