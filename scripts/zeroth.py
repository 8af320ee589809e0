"""`fabtune tune` with a zeroth-order method: on a network of layers or on a transformer, a report and a curve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, TaskID

from ..golden.cores.zotrain.zotrain import ZotrainSpec
from ..golden.errors import UserError
from ..golden.train.adapters.methods import METHODS as ADAPTER_METHODS
from ..golden.train.pretrain import pretraining_defaults
from ..golden.train.text.classifier import TextClassifier, default_folder
from ..golden.train.text.objective import TextObjective
from ..golden.train.text.tasks import generic_text, is_text, text_task
from ..golden.train.zo.defaults import CORE_EPS, EPS, zo_defaults
from ..golden.train.zo.finetune import FineTuning, Objective, ZoResult, ZoSettings
from ..golden.train.zo.integer_tuning import IntegerTuning, core_settings, has_own_names, refuse_folded
from ..golden.train.zo.methods import METHODS
from ..golden.train.zo.network_objective import NetworkObjective
from ..golden.train.zo.schedule import Schedule
from ..golden.zo.split import Split
from ..sim.compiled.comparison import DEFAULT_CORE
from ..sim.cores.zotrain.tune import train_rtl, zotrain_for
from ..sim.simulator import compiler
from .results import core_line, refuse_outputs, save_tuned, spoilt
from .start import Start, core_bar, progress_bars

POINTS = 20
"""Points of the plotted curve."""


@dataclass(frozen=True)
class ZerothOrderRequest(Start):
    """Options of the command; None where the default depends on the model.

    Parameters
    ----------
    method, engine, steps, batch, rate, eps, queries, generator, parameters, mask, fraction
        See `ZoSettings` and `Schedule`.
    core
        Preset of the core whose integers are taken, or its RTL; None for `DEFAULT_CORE`.
    cut, p1, p2
        See `Split`; None for a network that is not cut, and for 1.
    shots, generic, precision
        See `text_task`, `TextObjective` and `TextClassifier`.
    output, delta, plot, force
        Files to write, and whether they may replace others.
    """

    method: str
    engine: str | None
    steps: int | None
    batch: int | None
    rate: float | None
    eps: float | None
    queries: int
    generator: str | None
    parameters: tuple[str, ...]
    mask: str
    fraction: float
    core: str | None
    cut: int | None
    p1: int | None
    p2: int | None
    shots: int
    generic: Path | None
    precision: Literal["float32", "bfloat16"]
    output: Path | None
    delta: Path | None
    plot: Path | None
    force: bool

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


def run(request: ZerothOrderRequest, console: Console) -> dict[str, Any]:
    """Load or pre-train, fine-tune, save.

    Returns
    -------
    dict
        ``accuracy_before``, ``accuracy_after`` (fractions of held-out samples), ``loss_before``, ``loss_after`` (means
        of the first and the last 50 steps'), ``seconds`` (of the steps), ``trained_parameters``, ``directions``,
        the settings, ``warning`` (see `spoilt`), ``start``, the origin of the weights, ``weights``, the file,
        ``delta``, where one was asked for, and in a core's integers ``saturations``.
    """
    if request.method not in METHODS:
        raise UserError(f"there is no method {request.method!r}; there are: {', '.join((*ADAPTER_METHODS, *METHODS))}")
    refuse_outputs([request.output, *filter(None, [request.delta])], request.plot, request.force)
    settings = request.settings("")  # refuses wrong settings before anything is trained
    text = is_text(request.data)
    if not settings.writes_deltas:
        for name in ("delta", "core", "cut", "p1", "p2"):
            if getattr(request, name) is not None:
                raise UserError(
                    f"--{name} belongs to integers of all parameters: --method pezo-otf or pezo-pool, --engine golden"
                )
    torch.set_num_threads(2 if text else 1)
    tuning: FineTuning | IntegerTuning
    spec = None
    if settings.writes_deltas and not text:
        tuning, model, origin, classes, spec = _in_integers(request, console)
    else:
        objective, model, origin, classes = _text(request) if text else _samples(request, console)
        tuning = FineTuning(objective, request.settings(model))
    settings = tuning.settings
    result, facts = _tune(tuning, spec, f"{request.method}, {model}", request.plot is not None, console)
    described = {
        "network": model,
        "data": request.data,
        "drift": "none" if text else request.drift_name,
        "method": settings.method,
        "engine": result.engine,
        "generator": settings.generator_name,
        "steps": settings.schedule.steps,
        "rate": settings.rate,
        "seed": request.seed,
    }
    if spec is not None:
        described["array"] = f"{spec.lanes} x {spec.columns}"
    name = f"{request.data.partition(':')[0]}-{request.method}"
    output = save_tuned(request.output, name, result.tensors, described, request.force)
    if request.delta:
        tuning.delta().save(request.delta, request.force)
        described["delta"] = str(request.delta)
    if request.plot:
        from .curve import draw_steps

        draw_steps(result, described, request.plot)
    return {
        "accuracy_before": result.accuracy_before,
        "accuracy_after": result.accuracy_after,
        "loss_before": result.loss_before,
        "loss_after": result.loss_after,
        "seconds": round(result.seconds, 3),
        "trained_parameters": result.trained_parameters,
        "directions": result.directions,
        **({} if result.saturations is None else {"saturations": result.saturations}),
        **facts,
        **described,
        "warning": spoilt(
            result.loss_after,
            classes,
            result.accuracy_before,
            result.accuracy_after,
            f"lower --rate {settings.rate:g} or --eps {settings.eps:g}",
        ),
        "start": origin,
        "weights": str(output),
    }


def summary(result: dict[str, Any]) -> str:
    """Describe what `run` gave in a few lines."""
    before, after = (100 * result[f"accuracy_{when}"] for when in ("before", "after"))
    clipped = f"; {result['saturations']} values clipped" if "saturations" in result else ""
    lines = [
        f"{result['method']} ({result['generator']}) on {result['data']}, {result['engine']}: {before:.1f}% right "
        f"before, {after:.1f}% after {result['steps']} steps in {result['seconds']} s; "
        f"loss {result['loss_before']:.3f} to {result['loss_after']:.3f}",
        f"{result['trained_parameters']:,} parameters, "
        f"{result['directions'] or 'endless'} perturbations before the first returns{clipped}",
    ]
    if "cycles" in result:
        lines.append(core_line(result, "steps"))
    return "\n".join([*lines, result["weights"]])


def _tune(
    tuning: FineTuning | IntegerTuning, spec: ZotrainSpec | None, name: str, plotted: bool, console: Console
) -> tuple[ZoResult, dict[str, Any]]:
    """Fine-tune with progress bars; with the engine "rtl" the comparison's facts come with the result."""
    steps = tuning.settings.schedule.steps
    watch = max(1, steps // POINTS) if plotted else 0
    with progress_bars(console) as progress:
        step = partial(_advance, progress, progress.add_task(name, total=steps), tuning.settings.method)
        if spec is None or isinstance(tuning, FineTuning) or tuning.settings.engine != "rtl":
            return tuning.run(step, watch), {}
        with core_bar(progress) as begin:
            result, comparison = train_rtl(tuning, spec, step, watch, begin)
    return result, comparison.facts


def _text(request: ZerothOrderRequest) -> tuple[Objective, str, str, int]:
    """Load a transformer and a task of text: the model's name, the origin of its weights, and the classes beside it."""
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
    return TextObjective(classifier, task, generic), "transformer", str(folder), len(task.prompts)


def _samples(request: ZerothOrderRequest, console: Console) -> tuple[Objective, str, str, int]:
    """Load samples and a network, and pre-train it if its weights are not given; see `_text`."""
    task = request.task()
    network, module = request.network_for(task)
    pretraining = pretraining_defaults(network.name, request.seed)
    module, origin = request.ready(network, module, task, pretraining, console)
    return NetworkObjective(module, task), network.name, origin, network.classes


def _in_integers(request: ZerothOrderRequest, console: Console) -> tuple[IntegerTuning, str, str, int, ZotrainSpec]:
    """Load samples and a network, and choose the core whose integers tune it; then pre-train, as `_samples` does."""
    task = request.task()
    network, module = request.network_for(task)
    if request.engine == "rtl":
        compiler()
    settings = core_settings(request.settings(network.name, core=True))
    byte_inputs = task.tune.inputs.dtype == np.uint8
    spec = zotrain_for(network, settings, len(task.tune), byte_inputs, request.core or DEFAULT_CORE)
    if request.delta:
        refuse_folded(has_own_names(network, module))
    pretraining = pretraining_defaults(network.name, request.seed)
    module, origin = request.ready(network, module, task, pretraining, console)
    tuning = IntegerTuning(network, module, task, settings, spec.lanes, spec.columns)
    return tuning, network.name, origin, network.classes, spec


def _advance(progress: Progress, bar: TaskID, name: str, step: int, loss: float, right: float | None) -> None:
    tested = "" if right is None else f", {100 * right:.1f}% right"
    progress.update(bar, advance=1, description=f"{name}, loss {loss:.3f}{tested}")
