"""`fabtune tune` by zeroth order: a network of layers in float or in a core's integers, or a transformer on text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from ...golden.errors import UserError
from ...golden.train.pretrain import pretraining_defaults
from ...golden.train.text.classifier import TextClassifier, default_folder
from ...golden.train.text.objective import TextObjective
from ...golden.train.text.tasks import generic_text, is_text, text_task
from ...golden.train.zo.defaults import CORE_EPS, EPS, zo_defaults
from ...golden.train.zo.finetune import FineTuning, ZoResult, ZoSettings
from ...golden.train.zo.integer_tuning import IntegerTuning, core_settings, has_own_names, refuse_folded
from ...golden.train.zo.methods import METHODS
from ...golden.train.zo.network_objective import NetworkObjective
from ...golden.train.zo.schedule import Schedule
from ...golden.zo.split import Split
from ...sim.simulator import compiler
from ..options import given
from .tuning import TuneRequest, Tuning

POINTS = 20
"""Points of the plotted curve."""


@dataclass(frozen=True)
class ZerothOrderRequest(TuneRequest):
    """Options of zeroth order; None where the default depends on the model.

    Parameters
    ----------
    steps, eps, queries, generator, parameters, mask, fraction
        See `ZoSettings` and `Schedule`.
    cut, p1, p2
        See `Split`; None for a network that is not cut, and for 1.
    shots, generic, precision
        See `text_task`, `TextObjective` and `TextClassifier`.
    delta
        File for the sum of all updates.
    """

    steps: int | None
    eps: float | None
    queries: int
    generator: str | None
    parameters: tuple[str, ...]
    mask: str
    fraction: float
    cut: int | None
    p1: int | None
    p2: int | None
    shots: int
    generic: Path | None
    precision: Literal["float32", "bfloat16"]
    delta: Path | None

    def settings(self, model: str, core: bool = False) -> ZoSettings:
        """Settings that were given, and defaults of the model, or of its job on a core, for the others."""
        defaults, eps = zo_defaults(model), CORE_EPS if core else EPS
        rate = defaults.sparse_rate if self.method == "sparse-zo" else defaults.rate
        if core:
            rate = defaults.core_rate or rate
        schedule = Schedule(self.steps or defaults.steps, self.batch or defaults.batch, self.seed)
        return ZoSettings(
            self.method,
            rate if self.rate is None else self.rate,
            eps if self.eps is None else self.eps,
            schedule,
            self.queries,
            self.generator,
            self.parameters,
            self.engine,
            self.mask,
            self.fraction,
            Split(self.cut or 0, self.p1 or 1, self.p2 or 1),
        )


class ZerothOrder(Tuning):
    """Fine-tuning by zeroth order, see `Tuning`."""

    Request = ZerothOrderRequest
    methods = METHODS
    kept_as = "weights"
    compared = "steps"

    request: ZerothOrderRequest
    job: FineTuning | IntegerTuning
    result: ZoResult

    @classmethod
    def without_effect(cls, options: Mapping[str, Any]) -> Iterator[tuple[list[str], str]]:
        """List options that others leave without effect."""
        if options["mask"] != "generic":
            yield ["generic"], f"--mask {options['mask']}"
        if not is_text(options["data"]) and given(("generic", "shots", "precision")):
            raise UserError("--shots, --generic and --precision belong to a text task")

    @property
    def outputs(self) -> list[Path | None]:
        """What was tuned, and the sum of the updates where it is asked for."""
        return [self.request.output, *filter(None, [self.request.delta])]

    def prepare(self, console: Console) -> None:
        """Refuse what cannot run, load samples and model, and pre-train."""
        request = self.request
        settings = request.settings("")  # refuses wrong settings before anything is trained
        text = is_text(request.data)
        if not settings.writes_deltas:
            for name in ("delta", "core", "cut", "p1", "p2"):
                if getattr(request, name) is not None:
                    integers = "integers of all parameters: --method pezo-otf or pezo-pool, --engine golden"
                    raise UserError(f"--{name} belongs to {integers}")
        torch.set_num_threads(2 if text else 1)
        if text:
            self._prepare_text()
        else:
            self._prepare_network(console, settings.writes_deltas)

    def _prepare_text(self) -> None:
        """Load a transformer and a task of text."""
        request = self.request
        for name in ("network", "weights", "drift", "core", "cut", "p1", "p2"):
            if getattr(request, name) is not None:
                raise UserError(f"--{name} belongs to a network of layers; a text task takes --model FOLDER")
        if request.as_built:
            raise UserError("--as-built belongs to a network of layers; a text task takes --model FOLDER")
        if request.engine == "rtl":
            raise UserError("--engine rtl is for a network of layers: a text task takes --engine golden or float")
        task = text_task(request.data, request.data_dir, request.shots, request.seed)
        folder = Path(request.model) if request.model else default_folder()
        classifier = TextClassifier(folder, task.prompts, request.precision)
        classifier.freeze_words()
        generic = request.generic
        if generic is None and request.data_dir:
            generic = generic_text(request.data_dir)
        self.network, self.origin, self.classes = "transformer", str(folder), len(task.prompts)
        self.job = FineTuning(TextObjective(classifier, task, generic), request.settings(self.network))

    def _prepare_network(self, console: Console, integers: bool) -> None:
        """Load samples and a network, choose the core whose integers tune it, and pre-train it."""
        request = self.request
        task = request.task()
        network, module = request.network_for(task)
        settings = request.settings(network.name, core=integers)
        if integers:
            if request.engine == "rtl":
                compiler()
            settings = core_settings(settings)
            byte_inputs = task.tune.inputs.dtype == np.uint8
            self.spec = self.tuner.spec_for(network, settings, len(task.tune), byte_inputs, self.preset)
            if request.delta:
                refuse_folded(has_own_names(network, module))
        pretraining = pretraining_defaults(network.name, request.seed)
        module, self.origin = request.ready(network, module, task, pretraining, console)
        self.network, self.classes = network.name, network.classes
        if self.spec:
            self.job = IntegerTuning(network, module, task, settings, self.spec.lanes, self.spec.columns)
        else:
            self.job = FineTuning(NetworkObjective(module, task), settings)

    def bar(self, progress: Progress) -> dict[str, Any]:
        """Add a bar of the steps."""
        method, steps = self.request.method, self.job.settings.schedule.steps
        bar = progress.add_task(f"{method}, {self.network}", total=steps)

        def after_step(step: int, loss: float, right: float | None) -> None:
            tested = "" if right is None else f", {100 * right:.1f}% right"
            progress.update(bar, advance=1, description=f"{method}, loss {loss:.3f}{tested}")

        return {"progress": after_step, "watch": max(1, steps // POINTS) if self.request.plot else 0}

    @property
    def figures(self) -> dict[str, Any]:
        """Loss of the first and last 50 steps, ``seconds`` (of the steps), parameters, directions, clipped values."""
        result = self.result
        return {
            "loss_before": result.loss_before,
            "loss_after": result.loss_after,
            "seconds": round(result.seconds, 3),
            "trained_parameters": result.trained_parameters,
            "directions": result.directions,
            **({} if result.saturations is None else {"saturations": result.saturations}),
        }

    @property
    def described(self) -> dict[str, Any]:
        """Settings."""
        settings = self.job.settings
        return {
            "network": self.network,
            "data": self.request.data,
            "drift": "none" if is_text(self.request.data) else self.request.drift_name,
            "method": settings.method,
            "engine": self.result.engine,
            "generator": settings.generator_name,
            "steps": settings.schedule.steps,
            "rate": settings.rate,
            "seed": self.request.seed,
            **({"array": f"{self.spec.lanes} x {self.spec.columns}"} if self.spec else {}),
        }

    @property
    def loss(self) -> float:
        """Mean cross entropy of the last 50 steps."""
        return self.result.loss_after

    @property
    def remedy(self) -> str:
        """A lower rate, or a shorter perturbation."""
        return f"lower --rate {self.job.settings.rate:g} or --eps {self.job.settings.eps:g}"

    def save(self) -> dict[str, str]:
        """Write the sum of the updates, where it is asked for."""
        if not self.request.delta:
            return {}
        self.job.delta().save(self.request.delta, self.request.force)
        return {"delta": str(self.request.delta)}

    def draw(self, path: Path) -> None:
        """Plot loss and held-out accuracy by step."""
        from ..curve import draw_steps

        draw_steps(self.result, self.described, path)

    @classmethod
    def summary(cls, result: Mapping[str, Any]) -> list[str]:
        """Describe a result in lines."""
        before, after = (100 * result[f"accuracy_{when}"] for when in ("before", "after"))
        clipped = f"; {result['saturations']} values clipped" if "saturations" in result else ""
        return [
            f"{result['method']} ({result['generator']}) on {result['data']}, {result['engine']}: {before:.1f}% right "
            f"before, {after:.1f}% after {result['steps']} steps in {result['seconds']} s; "
            f"loss {result['loss_before']:.3f} to {result['loss_after']:.3f}",
            f"{result['trained_parameters']:,} parameters, "
            f"{result['directions'] or 'endless'} perturbations before the first returns{clipped}",
        ]
