"""`fabtune tune`: from a task and a network to tuned adapters, a report and a curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, TaskID

from ..golden.models.checkpoint import refuse_existing, save_state
from ..golden.models.network import Network
from ..golden.train.adapters.defaults import AdapterDefaults, adapter_defaults
from ..golden.train.adapters.tune import Epoch, Settings, tune
from ..golden.train.pretrain import Pretraining, pretraining_defaults
from ..sim.compiled.tune import spec_for, tune_rtl
from .outputs import new_run
from .start import Start, pretrained_module, progress_on, show


@dataclass(frozen=True)
class Request(Start):
    """What the command line asked for; None where the default depends on the network.

    Parameters
    ----------
    method, engine, epochs, batch, rate, rank, stochastic
        See `Settings`.
    core
        Preset of the core for the engine "rtl".
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
    rank: int
    stochastic: bool
    core: str
    pretrain_epochs: int | None
    pretrain_rate: float | None
    output: Path | None
    plot: Path | None
    force: bool

    def defaults(self, network: Network) -> AdapterDefaults:
        """The network's default epochs and rate, where the request gives none."""
        given = {name: getattr(self, name) for name in ("epochs", "rate")}
        return replace(
            adapter_defaults(network.name), **{name: value for name, value in given.items() if value is not None}
        )

    def pretraining(self, network: Network) -> Pretraining:
        """The network's default pre-training, where the request gives none."""
        given: dict[str, Any] = {"epochs": self.pretrain_epochs, "rate": self.pretrain_rate}
        return replace(
            pretraining_defaults(network.name, self.seed),
            **{name: value for name, value in given.items() if value is not None},
        )


def run(request: Request, console: Console) -> dict[str, Any]:
    """Pre-train or load, fine-tune, save.

    Returns
    -------
    dict
        ``accuracy_before``, ``accuracy_after`` (fractions of held-out samples), ``seconds`` (fine-tuning alone),
        ``cache_bytes``, ``saturations``, ``trained_parameters``, what was asked for, and ``adapters``, the file.
    """
    for path in filter(None, (request.output, request.plot)):
        refuse_existing(path, request.force)
    if request.plot:
        from .curve import check

        check(request.plot)
    torch.set_num_threads(1)  # layers as small as these gain nothing from more, and sums keep their order
    task = request.task()
    network, module = request.chosen(task)
    defaults = request.defaults(network)
    settings = Settings(
        request.method,
        request.engine or "golden",
        defaults.epochs,
        request.batch or 20,
        defaults.rate,
        request.rank,
        request.seed,
        request.stochastic,
    )
    in_rtl = settings.engine == "rtl"
    if in_rtl:
        spec_for(network, settings, len(task.tune), task.tune.inputs.dtype == np.uint8, request.core)
    how = request.pretraining(network)
    with progress_on(console) as progress:
        if module is None:
            module = pretrained_module(network, task, how, progress)
        bar = progress.add_task(f"{request.method}, {settings.engine}", total=settings.epochs)
        told = partial(_told, progress, bar, request.method)
        watch = request.plot is not None
        facts: dict[str, Any] = {}
        if in_rtl:
            step = progress.add_task("the core", total=None)
            stage = partial(_stage, progress, step)
            result, comparison, _ = tune_rtl(network, module, task, settings, told, watch, stage, request.core)
            progress.update(step, total=1, completed=1, description="the core")
            facts = comparison.facts
        else:
            result = tune(network, module, task, settings, told, watch)
    described = {
        "network": network.name,
        "data": task.name,
        "drift": request.drifted,
        "method": settings.method,
        "engine": settings.engine,
        "epochs": settings.epochs,
        "seed": settings.seed,
    }
    metadata = {name: str(value) for name, value in described.items()}
    metadata["format"] = "float32" if settings.engine == "float" else "Q4.12"
    output = request.output or new_run("tune") / f"{request.data.partition(':')[0]}-{request.method}.safetensors"
    save_state(output, result.tensors, metadata, request.force)
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
        **facts,
        **described,
        "adapters": str(output),
    }


def summary(result: dict[str, Any]) -> str:
    """Describe what `run` gave in a few lines."""
    before, after = (100 * result[f"accuracy_{when}"] for when in ("before", "after"))
    lines = [
        f"{result['method']} on {result['data']}, {result['engine']}: {before:.1f}% right before, {after:.1f}% after, "
        f"in {result['seconds']} s; cache {result['cache_bytes']} bytes, {result['saturations']} values clipped"
    ]
    if "cycles" in result:
        lines.append(
            f"the core took {result['cycles']:,} cycles ({result['ms_at_200_mhz']} ms at 200 MHz); "
            f"{result['batches_compared']} batches and {result['logits_compared']} outputs compared with the integers, "
            f"{result['mismatches']} mismatches"
        )
    return "\n".join([*lines, result["adapters"]])


def _told(progress: Progress, bar: TaskID, what: str, epoch: Epoch) -> None:
    show(progress, bar, what, epoch.loss, epoch.accuracy)


def _stage(progress: Progress, bar: TaskID, what: str) -> None:
    progress.update(bar, description=f"the core: {what}")
