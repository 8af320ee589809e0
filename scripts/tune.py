"""`fabtune tune`: from a task and a network to tuned adapters, a report and a curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import nn

from ..golden.datasets.dataset import Task
from ..golden.models.network import Network
from ..golden.train.adapters.defaults import adapter_defaults
from ..golden.train.adapters.tune import AdapterResult, AdapterSettings, Epoch, tune
from ..golden.train.pretrain import Pretraining, pretraining_defaults
from ..sim.compiled.comparison import DEFAULT_CORE
from ..sim.cores.instantft.tune import spec_for, tune_rtl
from ..sim.simulator import compiler
from .results import core_line, refuse_outputs, save_tuned, spoilt
from .start import Start, advance, core_bar, progress_bars


@dataclass(frozen=True)
class TuneRequest(Start):
    """Options of the command; None where the default depends on the network.

    Parameters
    ----------
    method, engine, epochs, batch, rate, schedule, stop_at, validate, patience, rank, stochastic
        See `AdapterSettings`.
    core
        Preset of the core, for the engine "rtl"; None for `DEFAULT_CORE`.
    pretrain_epochs, pretrain_rate
        See `Pretraining`.
    output, plot, force
        Files to write, and whether they may replace others.
    """

    method: str
    engine: str | None
    epochs: int | None
    batch: int | None
    rate: float | None
    schedule: str
    stop_at: float | None
    validate: float
    patience: int
    rank: int
    stochastic: bool
    core: str | None
    pretrain_epochs: int | None
    pretrain_rate: float | None
    output: Path | None
    plot: Path | None
    force: bool

    def settings(self, network: Network) -> AdapterSettings:
        """Settings that were given, and defaults of the network for the others."""
        defaults = adapter_defaults(network.name)
        return AdapterSettings(
            self.method,
            self.engine or "golden",
            self.epochs or defaults.epochs,
            self.batch or 20,
            defaults.rate if self.rate is None else self.rate,
            self.rank,
            self.seed,
            self.stochastic,
            self.schedule,
            self.stop_at,
            self.validate,
            self.patience,
        )

    def pretraining(self, network: Network) -> Pretraining:
        """Settings of pre-training that were given, and defaults of the network for the others."""
        given: dict[str, Any] = {"epochs": self.pretrain_epochs, "rate": self.pretrain_rate}
        return replace(
            pretraining_defaults(network.name, self.seed),
            **{name: value for name, value in given.items() if value is not None},
        )


def run(request: TuneRequest, console: Console) -> dict[str, Any]:
    """Pre-train or load, fine-tune, save.

    Returns
    -------
    dict
        ``accuracy_before``, ``accuracy_after`` (fractions of held-out samples), ``seconds`` (fine-tuning alone),
        ``cache_bytes``, ``saturations``, ``trained_parameters``, ``validation_loss`` and ``validation_accuracy`` of
        each epoch, the settings, ``warning`` (see `spoilt`), ``start``, the origin of the weights, and ``adapters``,
        the file.
    """
    refuse_outputs([request.output], request.plot, request.force)
    torch.set_num_threads(1)  # layers as small as these gain nothing from more, and sums keep their order
    task = request.task()
    network, module = request.network_for(task)
    settings, pretraining = request.settings(network), request.pretraining(network)
    settings.split(len(task.tune))
    if settings.engine == "rtl":
        compiler()
        byte_inputs = task.tune.inputs.dtype == np.uint8
        spec_for(network, settings, len(task.tune), byte_inputs, request.core or DEFAULT_CORE)
    module, origin = request.ready(network, module, task, pretraining, console)
    result, facts = _tune(request, network, module, task, settings, console)
    described = {
        "network": network.name,
        "data": task.name,
        "drift": request.drift_name,
        "method": settings.method,
        "engine": settings.engine,
        "epochs": len(result.epochs),
        "seed": settings.seed,
    }
    metadata = described | {"format": "float32" if settings.engine == "float" else "Q4.12"}
    name = f"{request.data.partition(':')[0]}-{request.method}"
    output = save_tuned(request.output, name, result.tensors, metadata, request.force)
    if request.plot:
        from .curve import draw

        draw(result, described, request.plot)
    return {
        "accuracy_before": result.accuracy_before,
        "accuracy_after": result.accuracy_after,
        "seconds": round(result.seconds, 3),
        "cache_bytes": result.cache_bytes,
        "saturations": result.saturations,
        "trained_parameters": result.trained_parameters,
        **_validation(result),
        **facts,
        **described,
        "warning": spoilt(
            result.epochs[-1].loss,
            network.classes,
            result.accuracy_before,
            result.accuracy_after,
            f"lower --rate {settings.rate:g}",
        ),
        "start": origin,
        "adapters": str(output),
    }


def _tune(
    request: TuneRequest, network: Network, module: nn.Module, task: Task, settings: AdapterSettings, console: Console
) -> tuple[AdapterResult, dict[str, Any]]:
    """Fine-tune with progress bars; with the engine "rtl" the comparison's facts come with the result."""
    watch = request.plot is not None
    with progress_bars(console) as progress:
        bar = progress.add_task(f"{request.method}, {settings.engine}", total=settings.epochs)
        step = advance(progress, bar, request.method)

        def after_epoch(epoch: Epoch) -> None:
            step(*(epoch.validation or (epoch.loss, epoch.accuracy)))

        if settings.engine != "rtl":
            return tune(network, module, task, settings, after_epoch, watch), {}
        with core_bar(progress) as begin:
            core = request.core or DEFAULT_CORE
            result, comparison, _ = tune_rtl(network, module, task, settings, after_epoch, watch, begin, core)
    return result, comparison.facts


def _validation(result: AdapterResult) -> dict[str, list[float]]:
    """Loss and accuracy of the samples that are not learnt from, after each epoch; empty where there are none."""
    found = [epoch.validation for epoch in result.epochs if epoch.validation]
    return {f"validation_{name}": [one[at] for one in found] for at, name in enumerate(("loss", "accuracy"))}


def summary(result: dict[str, Any]) -> str:
    """Describe what `run` gave in a few lines."""
    before, after = (100 * result[f"accuracy_{when}"] for when in ("before", "after"))
    lines = [
        f"{result['method']} on {result['data']}, {result['engine']}: {before:.1f}% right before, {after:.1f}% after, "
        f"in {result['seconds']} s; cache {result['cache_bytes']} bytes, {result['saturations']} values clipped"
    ]
    if result["validation_loss"]:
        loss, right = (result[f"validation_{name}"] for name in ("loss", "accuracy"))
        best = min(range(len(loss)), key=loss.__getitem__)
        lines.append(
            f"validation: loss {loss[-1]:.3f}, {100 * right[-1]:.1f}% right after epoch {len(loss)}; smallest loss "
            f"{loss[best]:.3f}, after epoch {best + 1}"
        )
    if "cycles" in result:
        lines.append(core_line(result, "batches"))
    return "\n".join([*lines, result["adapters"]])
