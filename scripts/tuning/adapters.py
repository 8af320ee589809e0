"""`fabtune tune` with gradients: adapters, the last layer, or all layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from ...golden.train.adapters.methods import METHODS, adapter_defaults
from ...golden.train.adapters.tune import AdapterResult, AdapterSettings, AdapterTuning, Epoch
from ...golden.train.pretrain import Pretraining, pretraining_defaults
from ...golden.train.tuned.run_file import by_title
from ...sim.compiled.tuner import CORE_ENGINES
from ..progress import advance
from .tuning import Tuning, find_tools, given_settings


class GradientTuning(Tuning):
    """Fine-tuning with gradients, see `Tuning`."""

    methods = METHODS
    kept_as = "adapters"
    compared = "batches"

    job: AdapterTuning
    result: AdapterResult

    @classmethod
    def without_effect(cls, options: Mapping[str, Any]) -> Iterator[tuple[list[str], str]]:
        if not METHODS[options["method"]].has_adapters:
            yield ["rank"], f"--method {options['method']}"
        if options["engine"] not in CORE_ENGINES:
            yield ["core"], f"--engine {options['engine'] or 'golden'}"
        for source in ("weights", "model"):
            if options[source] and not options["pretrain"]:
                yield ["pretrain_epochs", "pretrain_rate"], f"--{source} and without --pretrain"

    def prepare(self, console: Console) -> None:
        torch.set_num_threads(1)  # such small layers gain nothing from more threads, and sums keep their order
        start, options = self.start, self.options
        self._task = task = start.task()
        network, module = start.network_for(task)
        defaults = adapter_defaults(network.name)
        by_default = {"engine": "golden", "epochs": defaults.epochs, "batch": 20, "rate": defaults.rate}
        settings, samples = AdapterSettings(**given_settings(AdapterSettings, options, **by_default)), len(task.tune)
        settings.split(samples)
        self.check_samples(task, settings.engine != "float")
        if settings.engine in CORE_ENGINES:
            find_tools(settings.engine)
            byte_inputs = task.tune.inputs.dtype == np.uint8
            self.spec = self.tuner.spec_for(network, settings, samples, byte_inputs, self.preset)
        pretrain_options = {"epochs": options["pretrain_epochs"], "rate": options["pretrain_rate"]}
        pretraining = replace(
            pretraining_defaults(network.name, start.seed), **given_settings(Pretraining, pretrain_options)
        )
        module, self.origin = start.ready(network, module, task, pretraining, console)
        self.network, self.classes, self.held_out = network.name, network.classes, task.test.labels
        self.job = AdapterTuning(network, module, task, settings)
        self.note_start(network, self.job.stages, self.job.state, task.scale)
        if settings.engine != "float":
            self.check_parameters(self.job.stages, self.job.state)

    def bar(self, progress: Progress) -> dict[str, Any]:
        settings = self.job.settings
        bar = progress.add_task(f"{settings.method}, {settings.engine}", total=settings.epochs)
        step = advance(progress, bar, settings.method)

        def after_epoch(epoch: Epoch) -> None:
            step(*(epoch.validation or (epoch.loss, epoch.accuracy)))

        return {"progress": after_epoch, "watch": self.options["plot"] is not None}

    @property
    def figures(self) -> dict[str, Any]:
        """``seconds`` (of the tuning alone), cache figures, clipped values, parameters, and each epoch's validation."""
        result = self.result
        validations = [epoch.validation for epoch in result.epochs if epoch.validation]
        return {
            "seconds": round(result.seconds, 3),
            "cache_bytes": result.cache_bytes,
            "saturations": result.saturations,
            "trained_parameters": result.trained_parameters,
            **{
                f"validation_{name}": [values[index] for values in validations]
                for index, name in enumerate(("loss", "accuracy"))
            },
        }

    @property
    def described(self) -> dict[str, Any]:
        settings = self.job.settings
        return {
            "network": self.network,
            "data": self._task.name,
            "drift": self.start.drift_name,
            "method": settings.method,
            "engine": settings.engine,
            "epochs": len(self.result.epochs),
            "kept_epoch": self.result.kept_epoch,
            "seed": settings.seed,
        }

    @property
    def metadata(self) -> dict[str, Any]:
        settings = self.job.settings
        saved = {name: getattr(settings, name) for name in ("rank", "batch", "rate", "schedule")}
        saved |= {"core": self.preset if self.spec else ""}
        return self.described | saved | {"format": "float32" if settings.engine == "float" else "Q4.12"}

    @property
    def tensors(self) -> Mapping[str, NDArray[np.generic]]:
        return by_title(self.job.network, self.job.stages, self.job.state, self.result.tensors)

    @property
    def loss(self) -> float:
        """Mean cross entropy of the last epoch."""
        return self.result.epochs[-1].loss

    @property
    def remedy(self) -> str:
        return f"lower --rate {self.job.settings.rate:g}"

    def draw(self, path: Path) -> None:
        from ..curve import draw

        draw(self.result, self.described, path)

    @classmethod
    def summary(cls, result: Mapping[str, Any]) -> list[str]:
        before, after = (100 * result[f"accuracy_{when}"] for when in ("before", "after"))
        lines = [
            f"{result['method']} on {result['data']}, {result['engine']}: {before:.1f}% right before, {after:.1f}% "
            f"after; tuned in {result['seconds']} s, {result['total_seconds']} s in all; cache "
            f"{result['cache_bytes']} bytes, {result['saturations']} values clipped"
        ]
        if result["validation_loss"]:
            loss, right = (result[f"validation_{name}"] for name in ("loss", "accuracy"))
            kept = result["kept_epoch"] - 1
            lines.append(
                f"validation: loss {loss[-1]:.3f}, {100 * right[-1]:.1f}% right after epoch {len(loss)}; kept is epoch "
                f"{kept + 1}, of loss {loss[kept]:.3f} and {100 * right[kept]:.1f}% right"
            )
        elif result["kept_epoch"] < result["epochs"]:
            lines.append(f"kept is epoch {result['kept_epoch']} of {result['epochs']}, the one of the smallest loss")
        return lines
