"""The demo's second part: adapters on the same drifted digits, in the integers of the hardware."""

from __future__ import annotations

from typing import Any

import torch
from rich.progress import Progress

from ..golden.networks.presets import preset
from ..golden.samples.tasks import task_of
from ..golden.tuning.methods import METHODS
from ..golden.tuning.pretrain import Pretraining, pretrain
from ..golden.tuning.recipes import RECIPES
from ..golden.tuning.tune import Result, Settings, tune

SHOWN = (("instantft", "golden"), ("instantft", "float"), ("lora-last", "golden"), ("lora-all", "float"))


def tune_digits(progress: Progress) -> dict[tuple[str, str], Result]:
    """Fine-tune the digits network with several methods; results by (method, engine)."""
    torch.set_num_threads(1)
    network, recipe = preset("digits"), RECIPES["digits"]
    bar = progress.add_task("adapters in the model", total=recipe.pretrain_epochs + len(SHOWN) * recipe.epochs)
    task = task_of("digits", drift="camera")
    how = Pretraining(recipe.pretrain_epochs, rate=recipe.pretrain_rate)
    module = pretrain(network, task.pretrain, how, lambda *_: progress.advance(bar))
    return {
        (method, engine): tune(
            network,
            module,
            task,
            Settings(method, engine, recipe.epochs, rate=recipe.rate),
            lambda _: progress.advance(bar),
            watch=True,
        )
        for method, engine in SHOWN
    }


def adapters_table(results: dict[tuple[str, str], Result]) -> list[dict[str, Any]]:
    """A row for each result."""
    return [
        {
            "method": METHODS[method].title,
            "numbers": "Q8.16, Q4.12" if engine == "golden" else "float32",
            "trained parameters": result.trained_parameters,
            "before": f"{100 * result.accuracy_before:.1f} %",
            "after": f"{100 * result.accuracy_after:.1f} %",
            "cache bytes": result.cache_bytes,
            "clipped": result.saturations,
            "ms": round(1000 * result.seconds),
        }
        for (method, engine), result in results.items()
    ]
